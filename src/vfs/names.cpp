// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/path.h"
#include "vfs/file_system.h"

namespace ply::vfs {

rt::Task<Result<EntryReply>> FileSystem::lookup(NodeId directory, std::string name) {
  PLY_CO_TRY(place, place_of(directory, name));
  if (is_outside_marker(name)) co_return Errc::NotFound;
  branch::Branch& branch = branch_at(place.path);
  // Both before and after: an answer that crosses a rename may be of either file.
  co_await wait_while_moving(place.path);
  auto known = co_await branch.stat(place.path);
  if (moving_.contains(place.path)) {
    co_await wait_while_moving(place.path);
    known = co_await branch.stat(place.path);
  }
  if (known) {
    const NodePtr node = inodes_.adopt(place.directory, name, known->attr.type);
    co_return entry_reply(node, known->attr, known->validity);
  }
  if (!known.failed_with(Errc::NotFound)) co_return std::move(known).error();
  inodes_.detach(place.directory, name);
  EntryReply absent;
  absent.entry_timeout = options_.negative_timeout.value_or(branch.absence_validity(place.path));
  if (absent.entry_timeout <= rt::Duration::zero()) co_return Errc::NotFound;
  co_return absent;
}

rt::Task<store::NewNode> FileSystem::new_node(Place place, std::uint32_t mode, Caller caller, FileType type) {
  store::NewNode node;
  node.mode = mode & kPermissionBits;
  bool group_is_inherited = false;
  const std::string parent(parent_of(place.path));
  branch::Branch& branch = branch_at(parent);
  auto attr = co_await branch.permissions(parent);
  if (attr) group_is_inherited = (attr->mode & kSetGid) != 0;
  // mkdir(2) in a set-gid directory makes a set-gid directory; the mode that is set afterwards must not undo it.
  if (group_is_inherited && type == FileType::Directory) node.mode |= kSetGid;
  // What root makes is root's already.
  const bool caller_is_session = caller.uid == 0 && caller.gid == 0;
  if (branch.gives_ownership() && !caller_is_session && !options_.uid && !options_.gid) {
    node.uid = caller.uid;
    if (!group_is_inherited) node.gid = caller.gid;
  }
  co_return node;
}

rt::Task<Result<EntryReply>> FileSystem::make_node(NodeId directory, std::string name, std::uint32_t mode,
                                                   Caller caller) {
  OpenFlags flags;
  flags.write = true;
  flags.exclusive = true;
  PLY_CO_TRY(created, co_await create(directory, name, mode, flags, caller));
  co_await release(created.open.handle);
  co_return created.entry;
}

rt::Task<Result<EntryReply>> FileSystem::make_directory(NodeId directory, std::string name, std::uint32_t mode,
                                                        Caller caller) {
  PLY_CO_TRY(place, place_of(directory, name));
  const store::NewNode wanted = co_await new_node(place, mode, caller, FileType::Directory);
  branch::Branch& branch = branch_at(place.path);
  PLY_CO_TRY(attr, co_await branch.make_directory(place.path, wanted));
  inodes_.detach(place.directory, name);
  const NodePtr node = inodes_.adopt(place.directory, name, FileType::Directory);
  note_change(*place.directory);
  branch.touched(std::string(parent_of(place.path)));
  const auto known = branch.known(place.path);
  const rt::Duration validity = known && *known ? (*known)->validity : rt::Duration::zero();
  co_return entry_reply(node, attr, validity);
}

rt::Task<Result<EntryReply>> FileSystem::make_symlink(std::string target, NodeId directory, std::string name,
                                                      Caller caller) {
  PLY_CO_TRY(place, place_of(directory, name));
  if (target.size() > kPathMax) co_return Errc::NameTooLong;
  const store::NewNode wanted = co_await new_node(place, 0777, caller, FileType::Symlink);
  branch::Branch& branch = branch_at(place.path);
  PLY_CO_TRY(attr, co_await branch.make_symlink(target, place.path, wanted));
  written_links_.remember(place.path, target);
  inodes_.detach(place.directory, name);
  const NodePtr node = inodes_.adopt(place.directory, name, attr.type);
  note_change(*place.directory);
  branch.touched(std::string(parent_of(place.path)));
  const auto known = branch.known(place.path);
  const rt::Duration validity = known && *known ? (*known)->validity : rt::Duration::zero();
  co_return entry_reply(node, attr, validity);
}

rt::Task<Result<std::string>> FileSystem::read_link(NodeId id) {
  PLY_CO_TRY(node, node_of(id));
  const auto path = inodes_.path(*node);
  if (!path) co_return Errc::Stale;
  branch::Branch& branch = branch_at(*path);
  PLY_CO_TRY(target, co_await branch.read_link(*path));
  if (written_links_.wrote(*path, target)) co_return target;
  LinkPlace place;
  place.path = *path;
  for (const std::string& root : {branch.root_path(), options_.typed_root})
    if (!root.empty()) place.roots.push_back(root);
  auto text = present_link(options_.symlinks, target, place);
  if (!text) log_.debug("link {} -> {} leads out of the mount: refused", *path, target);
  co_return std::move(text);
}

rt::Task<Result<EntryReply>> FileSystem::link(NodeId id, NodeId directory, std::string name) {
  PLY_CO_TRY(node, node_of(id));
  PLY_CO_TRY(place, place_of(directory, name));
  // POSIX: EPERM where a file system has no hard links.
  if (!options_.hard_links) co_return Error(Errc::NotPermitted, "hard links are switched off");
  const auto existing = inodes_.path(*node);
  if (!existing) co_return Errc::NotFound;
  // A second name publishes the content: what was written goes first.
  co_await drain(node);
  branch::Branch& branch = branch_at(place.path);
  Status linked = co_await branch.link(*existing, place.path);
  if (linked.failed_with(Errc::Unsupported)) co_return std::move(linked).error().as(Errc::NotPermitted);
  if (!linked) co_return std::move(linked).error();
  inodes_.attach(node, place.directory, name);
  note_change(*node);
  note_change(*place.directory);
  branch.touched(std::string(parent_of(place.path)));
  PLY_CO_TRY(attr, co_await current_attr(node));
  co_return entry_reply(node, attr.attr, attr.validity);
}

rt::Task<Status> FileSystem::unlink(NodeId directory, std::string name) {
  PLY_CO_TRY(place, place_of(directory, name));
  if (const NodePtr losing = inodes_.child(place.directory, name); losing && !losing->open.empty()) {
    co_await drain(losing);
    co_await attach_all(losing);
  }
  const std::vector<std::string> marked(1, place.path);
  const Mark moving(*this, moving_, marked);
  co_await wait_while_opening(marked);
  branch::Branch& branch = branch_at(place.path);
  Status removed = co_await branch.remove_file(place.path);
  if (!removed) co_return std::move(removed);
  written_links_.forget(place.path);
  branch.touched(std::string(parent_of(place.path)));
  note_change(*place.directory);
  const NodePtr node = inodes_.detach(place.directory, name);
  if (!node) co_return Status();
  if (!node->open.empty()) tell_paths();
  note_change(*node);
  for (const Node::Name& other : node->names) {
    const auto path = inodes_.path(*other.parent, other.name);
    if (path) branch.adjust_links(*path, -1);
  }
  co_return Status();
}

rt::Task<Status> FileSystem::remove_directory(NodeId directory, std::string name) {
  PLY_CO_TRY(place, place_of(directory, name));
  branch::Branch& branch = branch_at(place.path);
  Status removed = co_await branch.remove_directory(place.path);
  if (!removed) co_return std::move(removed);
  branch.touched(std::string(parent_of(place.path)));
  note_change(*place.directory);
  inodes_.detach(place.directory, name);
  co_return Status();
}

rt::Task<Status> FileSystem::rename(NodeId directory, std::string name, NodeId to, std::string new_name,
                                    RenameRule rule) {
  PLY_CO_TRY(from, place_of(directory, name));
  PLY_CO_TRY(target, place_of(to, new_name));
  const NodePtr moved = inodes_.child(from.directory, name);
  // rename(2) of two names of one file does nothing.
  if (moved && moved == inodes_.child(target.directory, new_name)) co_return Status();
  // Never publish a name before its content.
  if (moved) co_await drain(moved);
  if (const NodePtr losing = inodes_.child(target.directory, new_name); losing && !losing->open.empty()) {
    co_await drain(losing);
    co_await attach_all(losing);
  }
  const std::vector<std::string> marked({from.path, target.path});
  const Mark moving(*this, moving_, marked);
  co_await wait_while_opening(marked);
  branch::Branch& branch = branch_at(from.path);
  const auto replace = rule == RenameRule::NoReplace ? store::Replace::No : store::Replace::Yes;
  Status renamed = co_await branch.rename(from.path, target.path, replace);
  if (!renamed) co_return std::move(renamed);
  written_links_.rename(from.path, target.path);
  const NodePtr replaced = inodes_.child(target.directory, new_name);
  inodes_.rename(from.directory, name, target.directory, new_name);
  tell_paths();
  for (const std::string& path : {from.path, target.path}) branch.touched(std::string(parent_of(path)));
  note_change(*from.directory);
  note_change(*target.directory);
  if (moved) note_change(*moved);
  if (replaced) note_change(*replaced);
  co_return Status();
}

}  // namespace ply::vfs
