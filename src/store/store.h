// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/attr.h"
#include "base/buffer.h"
#include "base/result.h"
#include "rt/task.h"

/// What a file server can do. Paths are relative to the store's root (base/path.h). All failures carry the true
/// cause as far as it can be found out.
namespace ply::store {

enum class Follow {
  No,
  Yes
};
enum class Replace {
  No,
  Yes
};

/// How to open an existing file.
struct OpenMode {
  bool read = false;
  bool write = false;
  bool append = false;    ///< every write goes to the end, whatever its offset
  bool truncate = false;  ///< to length 0 at the open
};

/// What a new file, directory or link is to be. Ids that are not set are the server's choice.
struct NewNode {
  std::uint32_t mode = 0;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  /// Of a file that a program asked to be made exclusively: its name may be a lock, which two must never both get.
  bool exclusive = false;
  /// Until its mode is set, it has one that nobody asks for (kClaimMode), so that who made it can be told from others
  /// when the answer to its creation is lost. Only where setting the mode is known to work.
  bool claim = false;
};
/// See NewNode::claim.
constexpr std::uint32_t kClaimMode = 0200;

/// Whether somebody waits for a job, or it is done ahead of the question: then it gives way, and may be refused with
/// Busy at any time.
enum class Urgency {
  Now,
  Soon,  ///< ahead, too, but worth several round trips
  Ahead
};

/// Whether a new file's owner, mode and times are set and known when the answer comes, or follow behind it (only where
/// keeps_order() holds).
enum class Confirm {
  Attributes,
  Later
};

/// The beginning of a file, read as a whole job.
struct SmallFile {
  Attr attr;    ///< as of the open
  Buffer data;  ///< shorter than attr.size if that is more than was asked for
};

/// A whole file to be written in one job.
struct WholeFile {
  bool replace = false;  ///< of a file that is there; otherwise it is made, and nothing of that name may be there
  NewNode node;  ///< of a new file; of one that is replaced, what it has (some ways of doing it must restore it)
  std::optional<std::int64_t> atime;  ///< both or none
  std::optional<std::int64_t> mtime;
  std::shared_ptr<const Buffer> data;
};

struct DirEntry {
  std::string name;  ///< is_valid_name()
  Attr attr;         ///< of the entry itself, not of a link's target
};

/// An open file. close() it before it goes away; a destroyed one leaks its handle on the server.
/// Calls on one file may overlap.
class File {
 public:
  virtual ~File() = default;
  /// Shorter than `size` only where the file ends.
  virtual rt::Task<Result<Buffer>> read(std::uint64_t offset, std::size_t size) = 0;
  /// Room in front of the data of a write that spares a copy (base/buffer.h, copy_with_headroom).
  static constexpr std::size_t kWriteHeadroom = 512;
  /// All of `data`, or a failure after which any part of it may have been written. `offset` is ignored by a file
  /// opened with OpenMode::append.
  virtual rt::Task<Status> write(std::uint64_t offset, Buffer data) = 0;
  virtual rt::Task<Result<Attr>> stat() = 0;
  virtual rt::Task<Status> set_attr(AttrChange change) = 0;
  /// The end of a piece of work, in one round trip where that can be: writes `data` (may be empty), applies `changes`
  /// in their order, and tells the attributes after it all. A change that is refused is a failure.
  virtual rt::Task<Result<Attr>> write_last(std::uint64_t offset, Buffer data, std::vector<AttrChange> changes);
  /// Durable on the server's disk when it returns OK. Unsupported if the server can't say.
  virtual rt::Task<Status> sync() = 0;
  /// Copies within the server: `length` bytes from `source` (of the same store), or as many as it has. The number
  /// copied, or Unsupported.
  virtual rt::Task<Result<std::uint64_t>> copy_from(File& source, std::uint64_t source_offset, std::uint64_t length,
                                                    std::uint64_t offset) = 0;
  virtual rt::Task<Status> close() = 0;
  /// False if the handle is lost with its connection: every call fails with ConnectionLost.
  virtual bool is_alive() const { return true; }
  /// close() that nobody waits for: it need not cost the server a turn of its own.
  virtual rt::Task<Status> close_behind() { return close(); }
};

struct Opened {
  std::unique_ptr<File> file;
  Attr attr;  ///< as of the open
};

class Store {
 public:
  virtual ~Store() = default;

  /// The server's identity, the same in every run: inode numbers are made of it.
  virtual std::string id() const = 0;
  /// The absolute path on the server that the root stands for, as the server tells it, or "" while not known.
  virtual std::string root_path() const = 0;
  /// How many bytes of a stream are worth reading ahead, as the link is now, and how fast they come (bytes per second,
  /// 0: not known). 0: reading ahead gains nothing.
  virtual std::uint64_t read_window() const { return 0; }
  virtual double read_rate() const { return 0; }
  /// The size of one read request.
  virtual std::size_t preferred_read_size() const { return 128 * 1024; }
  /// The most data that read_file, write_file and append_file do in one round trip. Larger jobs are better done in
  /// steps.
  virtual std::size_t max_job_size() const { return 0; }
  /// True if requests on one open file take effect in the order they are made, but for reads and writes of data that
  /// are under way at the same time: these may go several ways.
  virtual bool keeps_order() const { return false; }
  /// True if setting mode and times of an open file is known to work there: then it need not be waited for.
  virtual bool sets_attributes() const { return false; }
  virtual bool sets_owner() const { return false; }  ///< the same of the owner
  /// True if new files belong to whom we say: the session is root's.
  virtual bool may_set_owner() const = 0;
  /// The most bytes that one write request carries; buffering up to this pays.
  virtual std::size_t preferred_write_size() const = 0;

  virtual rt::Task<Result<Attr>> stat(std::string path, Follow follow) = 0;
  /// All entries but "." and "..", in the server's order. Names that no file can have are left out and logged. Ahead of
  /// the question, a directory that takes more than one round trip is TooLarge; Soon, one of more than 10,000 names is.
  virtual rt::Task<Result<std::vector<DirEntry>>> list(std::string path, Urgency urgency) = 0;
  /// The first `max_size` bytes of what must be known to be a regular file: opening anything else may wait for ever.
  /// `expected` bytes are probably there.
  virtual rt::Task<Result<SmallFile>> read_file(std::string path, std::size_t max_size, std::size_t expected,
                                                Urgency urgency);
  /// Makes or replaces a file with all it has; its attributes afterwards. After a failure any part may have been done.
  virtual rt::Task<Result<Attr>> write_file(std::string path, WholeFile file);
  /// Adds `data` to the end of a file, which had at least `base_size` bytes before; its attributes afterwards.
  virtual rt::Task<Result<Attr>> append_file(std::string path, std::uint64_t base_size,
                                             std::shared_ptr<const Buffer> data);
  virtual rt::Task<Result<Opened>> open(std::string path, OpenMode mode) = 0;
  /// A new file; fails with Exists if there is anything of that name, also a dangling link.
  /// With Confirm::Later the answer has no attributes; nor if the connection was lost behind the creation and will
  /// return: then the file is not alive.
  virtual rt::Task<Result<Opened>> create(std::string path, OpenMode mode, NewNode node, Confirm confirm) = 0;
  virtual rt::Task<Result<Attr>> make_directory(std::string path, NewNode node) = 0;
  virtual rt::Task<Result<Attr>> make_symlink(std::string target, std::string path, NewNode node) = 0;
  virtual rt::Task<Result<std::string>> read_link(std::string path) = 0;
  virtual rt::Task<Status> remove_file(std::string path) = 0;
  virtual rt::Task<Status> remove_directory(std::string path) = 0;
  /// Atomic where the server can.
  virtual rt::Task<Status> rename(std::string from, std::string to, Replace replace) = 0;
  virtual rt::Task<Status> link(std::string existing, std::string path) = 0;
  /// The attributes after it; after a failure a part may have been done.
  virtual rt::Task<Result<Attr>> set_attr(std::string path, AttrChange change, Follow follow) = 0;
  virtual rt::Task<Result<FsStats>> statfs(std::string path) = 0;
  /// Makes the names in a directory durable.
  virtual rt::Task<Status> sync_directory(std::string path) = 0;
  /// Ends the connection; what is still under way fails.
  virtual rt::Task<void> shut_down() = 0;
};

}  // namespace ply::store
