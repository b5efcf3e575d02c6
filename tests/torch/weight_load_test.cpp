// Which weights are taken as one, who pays for them, and who comes to share them.
#include "loader/torch/weight_load.hpp"

#include <map>
#include <new>
#include <set>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/torch/counting_grant.hpp"
#include "tests/torch/file_fixture.hpp"

namespace mme::test {
namespace {

using loader::ArchivePlan;
using loader::MapPolicy;
using loader::MemoryAccount;
using loader::Segment;
using loader::WeightLoad;
using loader::WeightPool;
using loader::WeightRecord;
using loader::WrittenWeights;

constexpr std::size_t kib = 1024;

/// Weights of these sizes one after the other, each on a 64-byte boundary behind a header.
ArchivePlan plan_of(const std::vector<std::size_t>& sizes, std::uint32_t first_checksum = 1) {
  ArchivePlan plan;
  std::uint64_t at = 64;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    plan.weights.push_back({"data/" + std::to_string(i), {at, sizes[i]}, true, first_checksum + std::uint32_t(i)});
    at = (at + sizes[i] + 64 + 63) / 64 * 64;
  }
  return plan;
}

std::vector<std::vector<std::size_t>> runs_of(const ArchivePlan& plan, bool with_constants = true) {
  std::vector<std::vector<std::size_t>> runs;
  for (const auto& run : loader::plan_runs(plan, with_constants)) runs.push_back(run.weights);
  return runs;
}

/// Weights on a disk, and the accounts of one load of them.
struct OneLoad {
  OneLoad(WeightPool& pool, const std::string& content, const ArchivePlan& weights, std::size_t room = SIZE_MAX)
      : plan(weights), fixture(content), grant(std::make_shared<CountingGrant>(0, room)) {
    file = fixture.open();
    artifact = artifact_of(fixture.path());
    account = MemoryAccount::open(grant, 0, 1);
    pool_ = &pool;
  }
  [[nodiscard]] std::vector<Segment> estimate() {
    std::vector<Segment> segments;
    const auto runs = loader::plan_runs(plan, true);
    for (const auto& run : runs) segments.push_back({pool_->likely_key(artifact, run), run.bytes});
    return segments;
  }
  [[nodiscard]] std::unique_ptr<WeightLoad> begin(const std::vector<Segment>& held,
                                                  const WrittenWeights& written = {}) {
    return std::make_unique<WeightLoad>(
        WeightLoad::Terms{*file, artifact, plan, MapPolicy::trusted, *grant, *account, *pool_},
        loader::plan_runs(plan, true, written), written, held);
  }
  [[nodiscard]] std::size_t paid() const { return account->bytes().tensors; }

  ArchivePlan plan;
  FileFixture fixture;
  std::shared_ptr<CountingGrant> grant;
  std::unique_ptr<loader::ArtifactFile> file;
  loader::ArtifactId artifact;
  MemoryAccount::Handle account;
  WeightPool* pool_;
};

std::set<std::string> keys_of(const std::vector<Segment>& segments) {
  std::set<std::string> keys;
  for (const Segment& segment : segments) keys.insert(segment.key);
  return keys;
}

std::string content_for(const ArchivePlan& plan, char letter) {
  return std::string(plan.weights.back().bytes.end(), letter);
}

}  // namespace

TEST_CASE("large weights are runs of their own, small neighbours are taken together") {
  using Runs = std::vector<std::vector<std::size_t>>;
  CHECK(runs_of(ArchivePlan{}).empty());
  CHECK(runs_of(plan_of({300 * kib, 3 * kib, 300 * kib, 2 * kib, kib})) == Runs{{0}, {1}, {2}, {3, 4}});
  CHECK(runs_of(plan_of({100 * kib, 100 * kib, 100 * kib, 100 * kib})) == Runs{{0, 1, 2}, {3}});
  CHECK(runs_of(plan_of({kib, 0, kib})) == Runs{{0, 2}});
  ArchivePlan holes = plan_of({kib, kib, kib, kib});
  holes.weights[1].mappable = false;
  holes.weights[2].name = "constants/0";
  CHECK(runs_of(holes, false) == Runs{{0}, {3}});  // nobody needs what lies between
  holes.weights[3].name = "tensors/3";
  CHECK(runs_of(holes) == Runs{{0}, {2}});
  holes.weights[3].name = "data/3";
  holes.weights[3].bytes.offset += 4096;
  CHECK(runs_of(holes) == Runs{{0}, {2}, {3}});
}

TEST_CASE("a run is charged the same wherever it lies in a file, and never less than its pages") {
  for (const std::uint64_t shift : {0, 64, 1024, 4032}) {
    ArchivePlan plan = plan_of({100 * kib, 5 * kib, 100 * kib + 64});
    for (auto& weight : plan.weights) weight.bytes.offset += shift;
    const auto runs = loader::plan_runs(plan, true);
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].bytes == loader::plan_runs(plan_of({100 * kib, 5 * kib, 100 * kib + 64}), true)[0].bytes);
    CHECK(runs[0].bytes >= loader::total_size(loader::pages_of({runs[0].span})));
  }
}

TEST_CASE("equal weights of two files are held once, others are not, and the second time nothing is read") {
  WeightPool pool;
  const ArchivePlan plan = plan_of({300 * kib, 300 * kib});
  std::string content = content_for(plan, 'a');
  OneLoad first(pool, content, plan);
  content[plan.weights[1].bytes.offset] = 'b';  // with the same checksum as the other: only the bytes tell
  OneLoad second(pool, content, plan);

  const auto one = first.begin(first.estimate());
  CHECK(std::string(one->open(true)).empty());
  CHECK(first.paid() == 0);  // the cache holds it
  CHECK(one->share().empty());
  const auto segments = one->hand_to_cache();
  CHECK(segments.size() == 2);

  const auto named = second.estimate();
  CHECK(keys_of(named) == keys_of(segments));
  for (int again = 0; again < 2; ++again) {
    const auto two = second.begin(again == 0 ? named : second.estimate());
    CHECK(std::string(two->open(true)).empty());
    CHECK(two->took_others() == (again == 1));
    if (again == 0) {
      CHECK(two->share() == std::vector<std::size_t>{0});
      CHECK(second.grant->held() == named[1].bytes);  // asked for: the other one's segment does not do
    } else {
      CHECK(two->share().empty());
      CHECK(second.paid() == 0);
    }
    CHECK(two->place(0).run == one->place(0).run);
    CHECK(two->place(1).run != one->place(1).run);
    const auto held = two->hand_to_cache();
    CHECK(held[0].key == segments[0].key);
    CHECK(held[1].key != segments[1].key);
    CHECK(second.paid() == 0);
    CHECK(*two->place(1).run->data(0) == std::byte{'b'});
    CHECK(two->maps().size() == 2);
  }
}

TEST_CASE("a run goes on as long as anybody holds it, whoever mapped it") {
  WeightPool pool;
  ArchivePlan plan = plan_of({300 * kib, 300 * kib});
  plan.weights[1].crc32 = plan.weights[0].crc32;
  OneLoad first(pool, content_for(plan, 'a'), plan);
  OneLoad second(pool, content_for(plan, 'a'), plan);
  auto one = first.begin({});
  CHECK(std::string(one->open(true)).empty());
  CHECK(first.paid() > 600 * kib);                     // the cache knows nothing of it
  CHECK(one->share() == std::vector<std::size_t>{1});  // its two weights are equal
  CHECK(one->hand_to_cache().size() == 1);
  CHECK(first.paid() == 0);
  auto two = second.begin({});
  CHECK(std::string(two->open(true)).empty());
  CHECK(two->share() == std::vector<std::size_t>{0, 1});
  CHECK(mapped_bytes(second.fixture.path(), "Rss") == 0);
  const auto run = two->place(0).run;
  one.reset();
  CHECK(*run->data(0) == std::byte{'a'});
  CHECK(first.fixture.is_mapped());
  two.reset();
  CHECK(first.fixture.is_mapped());
}

TEST_CASE("a model that keeps its weights to itself pays for what the cache held for it") {
  WeightPool pool;
  const ArchivePlan plan = plan_of({300 * kib, kib});
  for (const bool room : {true, false}) {
    OneLoad load(pool, content_for(plan, 'a'), plan, room ? SIZE_MAX : 100 * kib);
    const auto named = load.estimate();
    const auto weights = load.begin(named);
    CHECK(std::string(weights->open(true)).empty());
    if (room) {
      weights->keep();
      CHECK(load.paid() == named[0].bytes + named[1].bytes);
      CHECK(load.grant->held() == load.paid());
    } else {
      CHECK_THROWS_AS(weights->keep(), std::bad_alloc);
      CHECK(load.account->refused());
    }
    CHECK(weights->hand_to_cache().empty());
  }
}

TEST_CASE("runs of nothing but written weights are not planned, others stay whole") {
  const ArchivePlan plan = plan_of({300 * kib, kib, 2 * kib, 300 * kib});
  const auto content = loader::plan_runs(plan, true)[1].content;
  const auto runs = loader::plan_runs(plan, true, {false, {0, 1}});
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].weights == std::vector<std::size_t>{1, 2});
  CHECK(runs[0].content == content);
  CHECK(runs[0].number == loader::plan_runs(plan, true)[1].number);
  CHECK(loader::plan_runs(plan, true, {false, {1, 2}}).size() == 2);
  CHECK(loader::plan_runs(plan, true, {true, {}}).empty());
}

TEST_CASE("written weights have no place, and what was held for them alone is room for copies") {
  WeightPool pool;
  const ArchivePlan plan = plan_of({300 * kib, kib, 2 * kib});
  const WrittenWeights written{false, {0, 1}};
  OneLoad reader(pool, content_for(plan, 'a'), plan);
  const auto reads = reader.begin({});
  CHECK(std::string(reads->open(true)).empty());
  CHECK(reads->share().empty());
  const auto shared = reads->hand_to_cache();

  OneLoad writer(pool, content_for(plan, 'a'), plan);
  for (const bool known : {false, true}) {
    for (const bool held : {false, true}) {
      CAPTURE(known, held);
      const auto named = held ? writer.estimate() : std::vector<Segment>();
      const std::size_t before = writer.grant->held();
      const auto writes = writer.begin(named, known ? written : WrittenWeights());
      CHECK(std::string(writes->open(true)).empty());
      CHECK((writes->place(0).run != nullptr) != known);
      CHECK((writes->place(1).run != nullptr) != known);
      writes->let_go_of(written);
      CHECK_FALSE(writes->place(0).run);
      CHECK_FALSE(writes->place(1).run);
      for (const std::size_t moved : writes->share()) CHECK(moved == 2);
      CHECK(writes->place(2).run == reads->place(2).run);
      if (held) CHECK(writer.grant->held() - before >= named[0].bytes);
      const auto segments = writes->hand_to_cache();
      REQUIRE(segments.size() == 1);
      CHECK(segments[0].key == shared[1].key);
      CHECK(writer.paid() == 0);
    }
  }
  OneLoad poor(pool, content_for(plan, 'a'), plan, 100 * kib);
  const auto writes = poor.begin(poor.estimate());
  CHECK(std::string(writes->open(true)).empty());
  CHECK_THROWS_AS(writes->let_go_of(written), std::bad_alloc);
  CHECK(poor.account->refused());
}

TEST_CASE("the cache is asked with no account current, for everything, and allocates as it likes") {
  class Cache final : public loader::MemoryGrant {
   public:
    bool grow(std::size_t) noexcept override { return true; }
    void shrink(std::size_t) noexcept override {}
    void keep(std::size_t) noexcept override {}
    bool make_private(const Segment& segment) noexcept override {
      suspended = suspended && loader::current_account() == nullptr;
      asked.push_back(segment.key);
      return asked.size() > 1;
    }
    std::vector<std::string> asked;
    bool suspended = true;
  };
  WeightPool pool;
  const ArchivePlan plan = plan_of({300 * kib, 300 * kib, 300 * kib});
  OneLoad load(pool, content_for(plan, 'a'), plan);
  const auto cache = std::make_shared<Cache>();
  WeightLoad weights({*load.file, load.artifact, load.plan, MapPolicy::trusted, *cache, *load.account, pool},
                     loader::plan_runs(plan, true), {}, load.estimate());
  const loader::AccountScope scope(load.account.get());
  CHECK(std::string(weights.open(true)).empty());
  CHECK_THROWS_AS(weights.keep(), std::bad_alloc);
  CHECK(cache->suspended);
  CHECK(cache->asked.size() == 3);  // the second try is to know all of them
}

TEST_CASE("what the cache holds for runs that do not come to be is room for copies") {
  WeightPool pool;
  const ArchivePlan plan = plan_of({300 * kib, kib});
  OneLoad load(pool, content_for(plan, 'a'), plan);
  const std::vector<Segment> held{{"weights:of another plan", 1000}, {"code:1", 500, true}, load.estimate()[0]};
  const auto weights = load.begin(held);
  CHECK(std::string(weights->open(true)).empty());
  CHECK(load.grant->held() >= 1000);
  weights->give_up();
  CHECK(load.grant->held() >= 1000 + held[2].bytes);
  CHECK(load.paid() == 0);
  CHECK_FALSE(load.fixture.is_mapped());
  CHECK_FALSE(weights->place(0).run);
  REQUIRE(load.account->charge(1000 + held[2].bytes, loader::BlockKind::tensor));
  load.account->release(1000 + held[2].bytes, loader::BlockKind::tensor);
}

}  // namespace mme::test
