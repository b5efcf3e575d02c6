// The table of segments.
// Charges follow the holders' phases; nothing else is decided here.
#include "cache/segments.hpp"

#include <cassert>

#include "cache/faults.hpp"

namespace mme::cache {
namespace {

std::size_t& count(SegmentRecord& segment, Holding as) noexcept {
  switch (as) {
    case Holding::loading: return segment.loading;
    case Holding::ready: return segment.ready;
    case Holding::draining: break;
  }
  return segment.draining;
}

}  // namespace

SegmentRecord* SegmentTable::find(std::string_view key) noexcept {
  const auto found = records_.find(key);
  return found == records_.end() ? nullptr : &found->second;
}

const SegmentRecord* SegmentTable::find(std::string_view key) const noexcept {
  const auto found = records_.find(key);
  return found == records_.end() ? nullptr : &found->second;
}

SegmentRecord* SegmentTable::hold(const loader::Segment& held, Holding as) {
  const auto [at, made] = records_.try_emplace(held.key);
  SegmentRecord& segment = at->second;
  if (made) {
    segment.key = held.key;
    segment.bytes = held.bytes;
    segment.code = held.code;
    count(segment, as) = 1;
    charges_.add(segment.kind(), segment.bytes);
    return &segment;
  }
  const Kind before = segment.kind();
  ++count(segment, as);
  charges_.move(before, segment.kind(), segment.bytes);
  return &segment;
}

void SegmentTable::move(SegmentRecord* segment, Holding from, Holding to) noexcept {
  assert(count(*segment, from) > 0);
  const Kind before = segment->kind();
  --count(*segment, from);
  ++count(*segment, to);
  charges_.move(before, segment->kind(), segment->bytes);
}

void SegmentTable::drop(SegmentRecord* segment, Holding from) noexcept {
  assert(count(*segment, from) > 0);
  const Kind before = segment->kind();
  --count(*segment, from);
  if (segment->holders() > 0) {
    if (fault("segment_freed_early")) {
      charges_.sub(before, segment->bytes);
      return;
    }
    charges_.move(before, segment->kind(), segment->bytes);
    return;
  }
  charges_.sub(before, segment->bytes);
  records_.erase(records_.find(segment->key));
}

std::size_t SegmentTable::saved_bytes() const noexcept {
  std::size_t saved = 0;
  for (const auto& [key, segment] : records_) {
    saved += segment.live() > 1 ? (segment.live() - 1) * segment.bytes : 0;
  }
  return saved;
}

}  // namespace mme::cache
