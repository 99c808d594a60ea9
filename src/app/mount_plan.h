// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line.h"
#include "app/source.h"
#include "branch/branch.h"
#include "ssh/command.h"
#include "store/remote_store.h"
#include "vfs/file_system.h"

namespace ply::app {

enum class IdMapKind {
  None,
  User,
  File
};

/// Everything a mount needs to know, from the command line.
struct MountPlan {
  Persona persona = Persona::Plyfs;
  Source source;
  std::string mount_point;

  // Running
  bool foreground = false;
  bool debug = false;
  bool verbose = false;

  // Connecting
  ssh::SshOptions ssh;
  std::string directport;  ///< not empty: plain TCP to that port
  std::string vsock;       ///< not empty: "CID:PORT"
  bool passive = false;
  bool password_stdin = false;
  bool delay_connect = false;
  store::RemoteStoreOptions remote;
  /// After an unmount, how long the server may take none of the data that it does not have yet before it is given up.
  rt::Duration umount_timeout = std::chrono::seconds(30);

  // Behaving
  branch::BranchOptions branch;
  vfs::Options files;
  IdMapKind id_map = IdMapKind::None;
  std::string uid_file;
  std::string gid_file;
  branch::Unmapped unmapped = branch::Unmapped::Keep;
  std::string remote_charset;  ///< not empty: names are converted
  std::string local_charset;

  // Mounting
  bool allow_other = false;
  bool default_permissions = false;
  std::string fsname;
  std::string subtype;
  std::vector<std::string> kernel_options;  ///< passed to mount(8)/libfuse as they are

  std::vector<std::string> notes;     ///< accepted without effect, for debug output
  std::vector<std::string> warnings;  ///< to be shown
};

/// Makes the plan, or says what is wrong with the command line and how to put it right.
Result<MountPlan> make_plan(const CommandLine& line);

/// All names that -o takes (for suggestions and for the help's completeness test).
std::vector<std::string_view> option_names();

}  // namespace ply::app
