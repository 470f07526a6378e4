#include "agent/workload/mpi.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "agent/base/paths.h"
#include "engine/base/file.h"
#include "engine/base/list_folder.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kAllFolders = 60 * kSecond;
constexpr Nanoseconds kForever = 30 * 24 * 3600 * kSecond;
constexpr std::string_view kPath = "PATH=";
constexpr const char* kStarter = "lockstep-start";  // a script in the folder of the ranks

// What mpirun starts for a rank: it tells its environment, and waits for the program's status.
constexpr const char* kRankScript = R"(#!/bin/sh
f="$LOCKSTEP_MPI/rank-$OMPI_COMM_WORLD_RANK"
env -0 > "$f.new" && mv "$f.new" "$f.env"
read -r status < "$f.end" || status=1
exit "$status"
)";
// What mpirun calls in the place of ssh: it passes the host and the command on.
constexpr const char* kStartScript = R"(#!/bin/sh
host="$1"
shift
f="$LOCKSTEP_MPI/start-$$"
printf '%s\n%s' "$host" "$*" > "$f.new" && mv "$f.new" "$f.asked"
)";

std::string folderKey(const std::string& address) { return "mpi/folder/" + address; }
std::string startKey(const std::string& address) { return "mpi/start/" + address; }

Status writeScript(const std::string& path, const char* text) {
  return writeFileAtomically(path, text, 0700);
}

// The network that an address of this node is in, "10.9.0.0/24", if all of the others are; "" else.
std::string commonNetwork(const node::v1::ProgramPlaces& places) {
  const auto parse = [](const std::string& text) -> std::optional<std::uint32_t> {
    in_addr address{};
    if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
    return ntohl(address.s_addr);
  };
  const auto own = parse(places.places(0).address());
  ifaddrs* all = nullptr;
  if (!own || getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> held(all, freeifaddrs);
  const auto ipv4 = [](const sockaddr* address) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
  };
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_netmask == nullptr ||
        at->ifa_addr->sa_family != AF_INET || ipv4(at->ifa_addr) != *own)
      continue;
    const std::uint32_t mask = ipv4(at->ifa_netmask);
    for (const auto& place : places.places())
      if (const auto other = parse(place.address()); !other || (*other & mask) != (*own & mask))
        return {};
    in_addr network{htonl(*own & mask)};
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &network, text, sizeof text);
    return fmt::format("{}/{}", text, __builtin_popcount(mask));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<MpiRank>> MpiRank::make(const std::string& folder, const ProgramRank& rank,
                                               comm::Store& store) {
  std::unique_ptr<MpiRank> out(new MpiRank(folder, rank, store));
  LOCKSTEP_TRY(out->share(folder));
  const std::string end = out->file("end");
  if (mkfifo(end.c_str(), 0600) != 0) return systemError(errno, message("cannot create {}", end));
  // Also for reading, so that nobody waits for the other end.
  out->end_ = UniqueFd(open(end.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!out->end_) return systemError(errno, message("cannot open {}", end));
  return out;
}

MpiRank::~MpiRank() = default;

std::string MpiRank::file(const char* kind) const {
  return fmt::format("{}/rank-{}.{}", folder_, rank_.rank, kind);
}

bool MpiRank::isFirstOf(int rank) const {
  for (int other = 0; other < rank; ++other)
    if (rank_.places.places(other).address() == rank_.places.places(rank).address()) return false;
  return true;
}

// The first rank of an address makes the folder, which the others of that address learn.
Status MpiRank::share(const std::string& folder) {
  const std::string& address = rank_.places.places(rank_.rank).address();
  if (!isFirstOf(rank_.rank)) {
    LOCKSTEP_ASSIGN(folder_, store_.get(folderKey(address), kAllFolders));
    return {};
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);  // of a start before
  LOCKSTEP_TRY(makeFolders(folder));
  LOCKSTEP_TRY(writeScripts());
  return store_.set(folderKey(address), folder);
}

Status MpiRank::writeScripts() const {
  LOCKSTEP_TRY(writeScript(folder_ + "/rank", kRankScript));
  LOCKSTEP_TRY(writeScript(fmt::format("{}/{}", folder_, kStarter), kStartScript));
  return rank_.rank == 0 ? writeFileAtomically(folder_ + "/hosts", hostsText(), 0600) : Status();
}

// A line for each rank. What is at this node's own address has its name, as mpirun has it.
std::string MpiRank::hostsText() const {
  std::string out;
  for (const auto& place : rank_.places.places())
    out +=
        (place.address() == rank_.places.places(0).address() ? hostName() : place.address()) + "\n";
  return out;
}

Status MpiRank::begin(const std::vector<std::string>& environment, const std::string& codeFolder) {
  environment_ = environment;
  environment_.push_back("LOCKSTEP_MPI=" + folder_);
  codeFolder_ = codeFolder;
  if (rank_.rank > 0) {
    const auto& places = rank_.places;
    awaits_ =
        isFirstOf(rank_.rank) && places.places(rank_.rank).address() != places.places(0).address();
    if (!awaits_) return {};
    // mpirun asks for it once. The thread ends with the process.
    std::thread([asked = asked_, &store = store_,
                 key = startKey(places.places(rank_.rank).address())] {
      auto command = store.get(key, kForever);
      const std::lock_guard lock(asked->mutex);
      asked->command = std::move(command);
    }).detach();
    return {};
  }
  if (geteuid() == 0) {  // the agent has checked that
    environment_.emplace_back("OMPI_ALLOW_RUN_AS_ROOT=1");
    environment_.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  std::vector<std::string> words{"mpirun", "-np", std::to_string(rank_.places.places_size()),
                                 "--mca", "rmaps", "seq", "--hostfile", folder_ + "/hosts",
                                 "--bind-to", "none", "--leave-session-attached",
                                 // Also in a job of Slurm, whose srun it would call.
                                 "--mca", "ras", "^slurm", "--mca", "plm", "rsh", "--mca",
                                 "plm_rsh_agent", kStarter, "--mca", "plm_rsh_no_tree_spawn", "1"};
  if (const std::string network = commonNetwork(rank_.places); !network.empty())
    words.insert(words.end(), {"--mca", "oob_tcp_if_include", network});
  words.insert(words.end(), {"/bin/sh", "-c", "exec \"$LOCKSTEP_MPI/rank\""});
  return start(std::move(words));
}

Status MpiRank::start(std::vector<std::string> words) {
  Program::Options options;
  options.environment = environment_;
  options.folder = codeFolder_;
  auto path = resolveProgram(words.front(), valueIn(environment_, "PATH"), codeFolder_);
  if (!path.ok()) {
    path.error().next = "install Open MPI on all nodes, or add its folder to workload.env.PATH";
    return path.status();
  }
  options.path = std::move(*path);
  // mpirun looks for the script that starts daemons by its name: it would split a path at a blank.
  for (std::string& entry : options.environment)
    if (entry.starts_with(kPath)) entry.insert(kPath.size(), folder_ + ":");
  starterName_ = words.front() == "mpirun" ? "mpirun" : "orted";
  options.words = std::move(words);
  LOCKSTEP_ASSIGN(Program program, Program::start(options));
  starter_.emplace(std::move(program));
  return {};
}

Status MpiRank::passRequests() {
  for (const fs::path& path : listFolder(folder_)) {
    if (path.extension() != ".asked") continue;
    const auto text = readFile(path, 1 << 20);
    std::error_code ignored;
    fs::remove(path, ignored);
    const std::size_t line = text.ok() ? text->find('\n') : std::string::npos;
    if (line != std::string::npos)
      LOCKSTEP_TRY(store_.set(startKey(text->substr(0, line)), text->substr(line + 1)));
  }
  return {};
}

Status MpiRank::pump(const std::function<void(std::string_view)>& onOutput) {
  if (awaits_) {
    std::optional<Result<std::string>> command;
    {
      const std::lock_guard lock(asked_->mutex);
      command.swap(asked_->command);
    }
    if (command) {
      awaits_ = false;
      LOCKSTEP_TRY(command->status());
      LOCKSTEP_TRY(start({"sh", "-c", **command}));
    }
  }
  if (!starter_) return {};
  if (rank_.rank == 0) LOCKSTEP_TRY(passRequests());
  if (starter_->wait(0, onOutput)) return {};
  const int status = starter_->status();
  starter_.reset();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  Error error = makeError(Code::kAborted, "{} {}", starterName_, endText(status));
  error.field = "workload.command";
  error.next = "see the run's log for what it said";
  return error;
}

std::optional<std::vector<std::string>> MpiRank::variables() const {
  const auto text = readFile(file("env"), std::size_t{4} << 20);
  if (!text.ok()) return std::nullopt;
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\0', at), text->size());
    const std::string entry = text->substr(at, end - at);
    for (const std::string_view prefix : {"OMPI_", "PMIX_", "PMI_", "ORTE_", "OPAL_", "PRTE_"})
      if (entry.starts_with(prefix)) out.push_back(entry);
    at = end + 1;
  }
  return out;
}

void MpiRank::finish() { (void)!write(end_.get(), "0\n", 2); }

}  // namespace lockstep::agent
