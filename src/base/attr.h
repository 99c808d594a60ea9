// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>

namespace ply {

enum class FileType : std::uint8_t {
  Unknown,
  Regular,
  Directory,
  Symlink,
  Fifo,
  Socket,
  CharDevice,
  BlockDevice,
};

/// The type bits of a POSIX st_mode -> type, and back (0 for Unknown).
FileType type_of_mode(std::uint32_t st_mode);
std::uint32_t mode_of_type(FileType type);

constexpr std::uint32_t kPermissionBits = 07777;
constexpr std::uint32_t kSetUid = 04000;
constexpr std::uint32_t kSetGid = 02000;

/// What is known of a file. Times are whole seconds since 1970 UTC, as SFTP v3 carries them.
struct Attr {
  FileType type = FileType::Unknown;
  std::uint32_t mode = 0;  ///< permission and set-id bits only, see kPermissionBits
  std::uint64_t size = 0;  ///< bytes
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t atime = 0;
  std::int64_t mtime = 0;
  std::uint32_t nlink = 0;  ///< 0: not known (SFTP v3 has no field for it)

  bool is_directory() const { return type == FileType::Directory; }
  bool is_regular() const { return type == FileType::Regular; }
  bool is_symlink() const { return type == FileType::Symlink; }
  bool operator==(const Attr&) const = default;
};

/// What to change of a file; fields that are not set stay as they are.
struct AttrChange {
  std::optional<std::uint64_t> size;
  std::optional<std::uint32_t> mode;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::int64_t> atime;
  std::optional<std::int64_t> mtime;

  bool empty() const { return !size && !mode && !uid && !gid && !atime && !mtime; }
};

/// A file system's capacity, in the units of statvfs(3).
struct FsStats {
  std::uint64_t block_size = 4096;
  std::uint64_t fragment_size = 4096;
  std::uint64_t blocks = 0;
  std::uint64_t blocks_free = 0;
  std::uint64_t blocks_available = 0;
  std::uint64_t files = 0;
  std::uint64_t files_free = 0;
  std::uint64_t files_available = 0;
  std::uint64_t fs_id = 0;
  std::uint64_t name_max = 255;
  bool read_only = false;
};

}  // namespace ply
