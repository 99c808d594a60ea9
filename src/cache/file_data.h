// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/attr.h"
#include "base/range.h"
#include "base/slices.h"
#include "rt/event.h"

namespace ply::cache {

class DataCache;

/// What a file's content was when it was read: the same size and mtime mean the same content, with one exception. A
/// file that had changed within the second in which it was read may change again without a new mtime; its content is
/// only good as long as the server has not been asked again.
struct ContentVersion {
  std::uint64_t size = 0;
  std::int64_t mtime = 0;
  rt::TimePoint seen{};
  bool settled = false;  ///< mtime was some seconds ago when it was seen

  /// True if attributes that the server told at `told` are of this content.
  bool is_of(const Attr& attr, rt::TimePoint told) const {
    return attr.size == size && attr.mtime == mtime && (settled || seen >= told);
  }
};

/// What is known of one file's content: pieces that are there, and pieces that are being loaded. Belongs to a
/// DataCache, which may take pieces away at any time. Not tied to a handle: a file that was closed may be opened again.
class FileData {
 public:
  explicit FileData(DataCache& owner);
  ~FileData();
  FileData(const FileData&) = delete;

  /// What the pieces are of; nothing while they are of no version that the server has told.
  const std::optional<ContentVersion>& version() const { return version_; }
  void set_version(ContentVersion version) { version_ = version; }
  /// This mount changed the file: the bytes at `range` are out of date, and no version is known. What is being loaded
  /// is not kept.
  void changed(Range range);
  /// Forgets everything: somebody else changed the file, or may have.
  void clear();
  /// Another number after each clear(), never the same for two files: what was made of the content (the kernel's pages)
  /// is as good as this one is the same.
  std::uint64_t generation() const { return generation_; }

  /// The bytes from `from` on that are there without a gap, up to `to`.
  Slices slices(std::uint64_t from, std::uint64_t to);
  bool covers(Range range) const;
  /// The parts of `range` that are neither there nor being loaded.
  std::vector<Range> gaps(Range range) const;
  void put(std::uint64_t offset, Buffer bytes);
  /// Frees what lies before `offset` (a stream has passed it).
  void drop_before(std::uint64_t offset);
  /// The file was found to end here, whatever its attributes say.
  std::optional<std::uint64_t> end() const { return end_; }
  void set_end(std::uint64_t end) { end_ = end; }

  /// A piece on its way.
  struct Load {
    explicit Load(rt::Loop& loop) : done(loop) {}
    Range range;
    rt::Event done;
    bool cancelled = false;
  };
  using LoadPtr = std::shared_ptr<Load>;
  LoadPtr begin_load(rt::Loop& loop, Range range);
  /// The bytes came; fewer than asked for mean the end of the file.
  void end_load(const LoadPtr& load, Buffer bytes);
  void fail_load(const LoadPtr& load);
  /// The load that will bring the byte at `offset`, or null.
  LoadPtr load_at(std::uint64_t offset) const;
  /// The load that was begun first, or null.
  LoadPtr oldest_load() const { return loads_.empty() ? nullptr : loads_.front(); }

 private:
  friend class DataCache;
  struct Place {
    FileData* file;
    std::uint64_t offset;
  };
  struct Piece {
    std::shared_ptr<const Buffer> bytes;
    std::list<Place>::iterator age;
  };
  using Pieces = std::map<std::uint64_t, Piece>;

  Pieces::iterator erase(Pieces::iterator piece);
  /// The piece that holds `offset`, or end().
  Pieces::const_iterator piece_at(std::uint64_t offset) const;

  DataCache& owner_;
  std::optional<ContentVersion> version_;
  Pieces pieces_;  // by offset, without overlaps
  std::list<LoadPtr> loads_;
  std::optional<std::uint64_t> end_;
  std::uint64_t generation_;
};

}  // namespace ply::cache
