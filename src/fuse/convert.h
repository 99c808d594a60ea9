// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "fuse/operations.h"
#include "vfs/file_system.h"

namespace ply::fuse {

struct stat to_stat(const vfs::FileStat& file);
fuse_entry_param to_entry(const vfs::EntryReply& entry);
double to_seconds(rt::Duration duration);
vfs::OpenFlags to_flags(int open_flags);
vfs::SetAttr to_change(const struct stat& attr, int to_set);

}  // namespace ply::fuse
