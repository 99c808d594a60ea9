// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>

#include "store/session.h"

namespace ply::store {

/// What was tried when the server answered with SFTP's catch-all.
enum class Attempt {
  Create,
  Open,
  OpenForWriting,
  Write,
  SetSize,
  SetOther,
  MakeDirectory,
  RemoveFile,
  RemoveDirectory,
  Rename,
  MakeSymlink,
  Link,
  ReadLink,
  List,
  Other,
};

/// The attempt as a word for messages: "mkdir".
std::string_view verb(Attempt attempt);

/// SFTP v3 has one code for EEXIST, ENOTEMPTY, ENOSPC, EROFS, EXDEV, EISDIR and more. This asks the server what
/// stands at the path, whether a directory is empty and whether the file system is full, and returns the failure
/// under its true code, or as it was where nothing explains it. Failures that are exact pass unchanged, at no cost.
/// `path`: the server's path of what was to be made, changed or removed (a rename's source). `other`: a rename's or
/// link's new name. `size`: the bytes of a write, or the size to set.
rt::Task<Error> find_cause(std::shared_ptr<Session> session, Attempt attempt, Error failure, std::string path,
                           std::string other = {}, std::uint64_t size = 0);

/// True if two answers of statvfs are of different file systems.
bool differ(const FsStats& a, const FsStats& b);

}  // namespace ply::store
