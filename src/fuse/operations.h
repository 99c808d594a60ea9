// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

namespace ply::fuse {

/// The low-level operations that the kernel's requests are dispatched to. Their user data is the Session.
/// What is not in the table is answered with ENOSYS, which the kernel takes for "never ask again": extended
/// attributes, locks (so flock(2) and fcntl(2) locks are the kernel's own, local to the mount), ioctl, poll, bmap.
const fuse_lowlevel_ops& operations();

}  // namespace ply::fuse
