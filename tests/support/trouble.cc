#include "tests/support/trouble.h"

#include <grpcpp/grpcpp.h>
#include <sys/mount.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/hash.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::test {
namespace fs = std::filesystem;

namespace {

const std::string kData = "/usr/share/datasets/fashion-mnist/";

bool emptyOrAbsent(const std::string& folder) {
  std::error_code failed;
  return !fs::exists(folder) || fs::is_empty(folder, failed);
}

std::string clusterNode(const std::string& name, const std::string& workdir,
                        const std::string& more) {
  return "  - name: " + name + "\n    address: 127.0.0.1\n    workdir: " + workdir + "\n" + more;
}

}  // namespace

class SshTrouble::OtherProtocol final : public node::v1::Agent::Service {
 public:
  // The first version told the protocol alone.
  OtherProtocol(const std::string& socket, int oldest, int newest)
      : oldest_(oldest), newest_(newest) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~OtherProtocol() override { server_->Shutdown(std::chrono::system_clock::now()); }
  grpc::Status Handshake(grpc::ServerContext*, const node::v1::HandshakeRequest*,
                         node::v1::HandshakeReply* reply) override {
    reply->set_protocol(newest_);
    if (newest_ == 1) return grpc::Status::OK;
    reply->mutable_speaks()->set_oldest(oldest_);
    reply->mutable_speaks()->set_newest(newest_);
    return grpc::Status::OK;
  }

 private:
  const int oldest_, newest_;
  std::unique_ptr<grpc::Server> server_;
};

const std::vector<std::string>& SshTrouble::all() {
  static const std::vector<std::string> names = {
      "unknown host key", "changed host key", "wrong key",      "no bundle", "no agent",
      "newer system",     "older protocol",   "newer protocol", "no space"};
  return names;
}

std::unique_ptr<SshTrouble> SshTrouble::make(const std::string& name, std::string* why) {
  std::unique_ptr<SshTrouble> made(new SshTrouble());
  return made->provoke(name, why) ? std::move(made) : nullptr;
}

SshTrouble::~SshTrouble() {
  server_.reset();
  if (mounted_) ::umount2((folder_ / "work").c_str(), MNT_DETACH);
}

// A bundle of one file, a shell script that stands for the agent.
void SshTrouble::scriptedAgent(const std::string& script, const std::string& glibc) {
  utsname machine{};
  ::uname(&machine);
  bundle_ = folder_ / "bundle";
  fs::create_directories(bundle_);
  const std::string text = "#!/bin/sh\n" + script + "\n";
  writeText(bundle_ + "/lockstep-agent", text, 0755);
  writeText(bundle_ + "/manifest", std::string("lockstep-bundle 1\nmachine ") + machine.machine +
                                       "\nglibc " + glibc + "\nfile " + sha256Hex(text) + " " +
                                       std::to_string(text.size()) + " 755 lockstep-agent\n");
}

bool SshTrouble::provoke(const std::string& name, std::string* why) {
  makeKey(folder_ / "id");
  server_ = Sshd::start(folder_ / "sshd", folder_ / "id", {}, why);
  if (!server_) return false;
  writeText(folder_ / "known_hosts", server_->knownHostsLine() + "\n", 0600);
  std::string identity = folder_ / "id";
  scriptedAgent("echo 'libnowhere.so: cannot open shared object file' >&2; exit 127", "2.17");
  if (name == "unknown host key") {
    writeText(folder_ / "known_hosts", "", 0600);
    says_ = {server_->fingerprint(), "--accept-host-key SHA256:"};
  } else if (name == "changed host key") {
    server_->replaceHostKey();
    says_ = {"has changed", folder_ / "known_hosts:1", "ssh-keygen -f"};
  } else if (name == "wrong key") {
    identity = folder_ / "other";
    makeKey(identity);
    says_ = {"permission denied for", "tried " + identity, "ssh-copy-id"};
  } else if (name == "no bundle") {
    bundle_ = folder_ / "none";
    says_ = {"the agent package was not found", bundle_, "connect again"};
  } else if (name == "no agent") {
    says_ = {"the agent does not start", "status 127", "libnowhere.so", "connect again"};
  } else if (name == "newer system") {
    scriptedAgent("exit 1", "2.999");
    says_ = {"the agent cannot run on this node", "2.999 is needed", "newer system"};
  } else if (name == "older protocol" || name == "newer protocol") {
    const bool newer = name == "newer protocol";
    const std::string socket = folder_ / "other.sock";
    other_ = std::make_unique<OtherProtocol>(socket, newer ? 98 : 1, newer ? 99 : 1);
    scriptedAgent("echo '{\"socket\":\"" + socket + "\",\"version\":\"0\",\"pid\":1}'", "2.17");
    says_ = {newer ? "the agent speaks protocol 98 to 99, the client protocol"
                   : "the agent speaks protocol 1, the client protocol",
             "deploy this version"};
  } else if (name == "no space") {
    if (::getuid() != 0) return *why = "mounting a small tmpfs needs root", false;
    fs::create_directories(folder_ / "work");
    mounted_ = ::mount("lockstep-test", (folder_ / "work").c_str(), "tmpfs", 0, "size=64k") == 0;
    if (!mounted_) return *why = "a tmpfs cannot be mounted here", false;
    says_ = {"no space on n1", "bytes needed", "free space there"};
  } else {
    return *why = "no such trouble: " + name, false;
  }
  writeText(sshConfig(), sshConfigFor({server_.get()}, folder_ / "known_hosts", identity), 0600);
  writeText(clusterFile(), "version: 1\nname: trouble\nnodes:\n" +
                               clusterNode("n1", folder_ / "work", "    ssh: {host: n1}\n"));
  return true;
}

bool SshTrouble::nothingStays() const {
  const std::string work = folder_ / "work";
  if (!processesNaming(work).empty() || !emptyOrAbsent(work + "/runs")) return false;
  if (!fs::exists(work + "/versions")) return true;
  for (const auto& entry : fs::directory_iterator(work + "/versions"))
    if (entry.path().filename().string().starts_with(".")) return false;
  return true;
}

const std::vector<std::string>& RunTrouble::all() {
  static const std::vector<std::string> names = {"missing file",  "another file",
                                                 "corrupt gzip",  "labels given as images",
                                                 "another shape", "no space"};
  return names;
}

std::unique_ptr<RunTrouble> RunTrouble::make(const std::string& name, const std::string& folder,
                                             std::string* why) {
  if (!fs::exists(kData)) return *why = "dataset-fashion-mnist is not installed", nullptr;
  std::unique_ptr<RunTrouble> made(new RunTrouble());
  made->folder_ = folder;
  std::vector<std::string>& says = made->says_;
  const std::string images = kData + "train-images-idx3-ubyte.gz";
  const std::string labels = kData + "train-labels-idx1-ubyte.gz";
  std::string own = folder + "/images";
  std::string given = images;
  if (name == "missing file") {
    says = {own, "No such file or directory", "put the file there"};
  } else if (name == "another file") {
    // As good a data set, but not that of the other node: one label differs.
    given = labels;
    own = folder + "/labels";
    runCommand({"sh", "-c", "gunzip -c " + labels + " > " + own});
    std::string text = readText(own);
    text[8] = static_cast<char>((text[8] + 1) % 10);
    writeText(own, text);
    says = {"data.train.labels", own, "SHA-256", "copy the same file to every node"};
  } else if (name == "corrupt gzip") {
    std::string text = readText(images);
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 0x10);
    writeText(own, text);
    says = {own, "the gzip stream is corrupt", "fetch the file again"};
  } else if (name == "labels given as images") {
    own = labels;
    says = {labels, "it holds 60000 elements and is used as images",
            "check that images and labels"};
  } else if (name == "no space") {
    if (::geteuid() != 0) return *why = "mounting a small tmpfs needs root", nullptr;
    own = images;
    fs::create_directories(folder + "/w2");
    made->mounted_ =
        ::mount("lockstep-test", (folder + "/w2").c_str(), "tmpfs", 0, "size=16m") == 0;
    if (!made->mounted_) return *why = "a tmpfs cannot be mounted here", nullptr;
    says = {"no space for the run in " + folder + "/w2", "MiB are needed", "free space there"};
  } else {
    std::string text("\0\0\10\3\0\0\352\140\0\0\0\40\0\0\0\40", 16);  // 60000 images of 32×32
    writeText(own, text + std::string(std::size_t{60000} * 32 * 32, '\1'));
    says = {own, "its images are 32x32x1; the model takes 28x28x1", "model.input.shape"};
  }
  writeText(made->clusterFile(),
            "version: 1\nname: trouble\nnodes:\n" + clusterNode("n1", folder + "/w1", "") +
                clusterNode("n2", folder + "/w2", "    data: {" + given + ": " + own + "}\n"));
  return made;
}

RunTrouble::~RunTrouble() {
  if (mounted_) ::umount2((folder_ + "/w2").c_str(), MNT_DETACH);
}

bool RunTrouble::noRunStays() const {
  return emptyOrAbsent(folder_ + "/w1/runs") && emptyOrAbsent(folder_ + "/w2/runs");
}

std::vector<pid_t> processesNaming(const std::string& path) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (readText("/proc/" + name + "/cmdline").find(path) != std::string::npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

}  // namespace lockstep::test
