// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "base/range.h"
#include "rt/scope.h"
#include "rt/semaphore.h"
#include "store/store.h"

namespace ply::writeback {

struct WriterOptions {
  std::size_t piece_size = 256 * 1024;  ///< small writes that follow each other are gathered to half of this
  /// Data waits at most so long for more to be gathered with it, even while the file stays open.
  rt::Duration max_age = std::chrono::milliseconds(500);
  bool synchronous = false;  ///< write() returns when the server has acknowledged
  bool append = false;       ///< the file appends: one piece is under way at a time, so that none overtakes another
};

/// Writes of one open file that the server does not have yet. `write` returns when the data is taken; it is sent in
/// the background, within a budget that all files of a mount share (a full one delays the reply). Failures are told
/// to `on_failure`, which must bring them to a caller; `on_acknowledged` is called with its place after each piece that
/// the server has taken or refused: what was known of the file's size and times is out of date then. `on_settled` is
/// called when all is on the server and it has told the file's attributes after that. Requires at destruction: finish()
/// awaited.
class FileWriter {
 public:
  FileWriter(rt::Loop& loop, store::File& file, rt::Semaphore& budget, WriterOptions options,
             std::function<void(const Error&)> on_failure, std::function<void(Range)> on_acknowledged,
             std::function<void(const Attr&)> on_settled);
  ~FileWriter();

  /// Takes a copy of `data` before its first suspension. A failure is only returned if synchronous.
  rt::Task<Status> write(std::uint64_t offset, Buffer data);
  /// Sets attributes after all that was written so far. Goes along with the last piece.
  void set_attr_behind(AttrChange change) { changes_.push_back(change); }
  /// The modification time that is still to be set, if any.
  std::optional<std::int64_t> time_to_set() const;
  /// Waits until the server has acknowledged, or refused, everything written before this call.
  rt::Task<void> drain();
  /// drain(), and nothing of this writer runs any more. Requires: no further write.
  rt::Task<void> finish();

  bool is_dirty() const { return gathered_size() > 0 || !under_way_.empty() || !changes_.empty(); }
  bool overlaps(std::uint64_t offset, std::uint64_t size) const;
  /// Where the furthest of the dirty data ends; 0 if there is none.
  std::uint64_t dirty_end() const;

 private:
  struct Extent {
    std::uint64_t sequence;
    std::uint64_t offset;
    std::uint64_t size;
  };

  std::size_t gathered_size() const { return gathered_.size(); }
  rt::Task<void> send_gathered();
  rt::Task<void> send_last();
  rt::Task<void> finish_last(std::list<Extent>::iterator extent, Buffer data, std::vector<AttrChange> changes);
  void acknowledge(std::list<Extent>::iterator extent, const Error* failure);
  rt::Task<void> send(std::list<Extent>::iterator extent, Buffer data);
  rt::Task<void> send_when_old();
  void arm_timer();

  rt::Loop& loop_;
  store::File& file_;
  rt::Semaphore& budget_;
  WriterOptions options_;
  std::function<void(const Error&)> on_failure_;
  std::function<void(Range)> on_acknowledged_;
  std::function<void(const Attr&)> on_settled_;
  rt::Scope scope_;
  rt::Mutex order_;  // decides the order of pieces; held while a piece waits for one it overlaps

  Buffer gathered_;  // [gathered_offset_, + size): not sent
  std::uint64_t gathered_offset_ = 0;
  std::vector<AttrChange> changes_;  // to be made when all of it is written
  std::list<Extent> under_way_;
  std::uint64_t next_sequence_ = 1;
  rt::WaitList acknowledged_;
  rt::TimerId timer_ = 0;
  std::optional<Error> last_failure_;
};

}  // namespace ply::writeback
