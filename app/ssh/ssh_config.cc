#include "app/ssh/ssh_config.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "app/ssh/run_process.h"
#include "engine/base/text.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr int kDeepestRoute = 8;

// ssh looks in the account's home, not in $HOME.
std::string accountHome() {
  if (const passwd* entry = ::getpwuid(::getuid())) return entry->pw_dir;
  const char* home = ::getenv("HOME");
  return home ? home : "";
}

std::vector<std::string> words(std::string_view text, char separator = ' ') {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

bool isYes(const std::string& value) { return value == "yes" || value == "true"; }

// ssh -G leaves "~", "%h" and "${NAME}" in the names of keys.
std::string expand(const std::string& path, const SshConfig& config) {
  const std::string home = accountHome();
  std::string text = path;
  if (text == "~" || text.starts_with("~/")) text = home + text.substr(1);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool isVariable = text.compare(i, 2, "${") == 0;
    if (const std::size_t end = text.find('}', i); isVariable && end != std::string::npos) {
      const char* value = ::getenv(text.substr(i + 2, end - i - 2).c_str());
      out += value ? value : text.substr(i, end + 1 - i);  // as written where it is not set
      i = end;
      continue;
    }
    if (text[i] != '%' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case '%':
        out += '%';
        break;
      case 'd':
        out += home;
        break;
      case 'h':
        out += config.hostname;
        break;
      case 'k':
        out += config.hostKeyAlias.empty() ? config.hostname : config.hostKeyAlias;
        break;
      case 'n':
        out += config.alias;
        break;
      case 'p':
        out += std::to_string(config.port);
        break;
      case 'r':
        out += config.user;
        break;
      case 'i':
        out += std::to_string(::getuid());
        break;
      case 'u':
        if (const passwd* entry = ::getpwuid(::getuid())) out += entry->pw_name;
        break;
      default:
        out += '%', out += text[i];
    }
  }
  return out;
}

// Each once, in order; "none" stands for no file.
std::vector<std::string> expandFiles(const std::vector<std::string>& files,
                                     const SshConfig& config) {
  std::vector<std::string> out;
  for (const std::string& file : files) {
    std::string path = expand(file, config);
    if (file != "none" && std::find(out.begin(), out.end(), path) == out.end())
      out.push_back(std::move(path));
  }
  return out;
}

// "SSH_AUTH_SOCK", "$NAME", "none", or a path; absent: the environment.
std::string agentSocket(const std::string& value, const SshConfig& config) {
  const auto variable = [](const std::string& name) {
    const char* text = ::getenv(name.c_str());
    return std::string(text ? text : "");
  };
  if (value.empty() || value == "SSH_AUTH_SOCK") return variable("SSH_AUTH_SOCK");
  if (value == "none") return "";
  if (value.starts_with("${") && value.ends_with("}"))
    return variable(value.substr(2, value.size() - 3));
  if (value.starts_with("$")) return variable(value.substr(1));
  return expand(value, config);
}

// "user@host:port", "[::1]:22", "ssh://user@host:port".
Result<SshTarget> parseJump(std::string text) {
  SshTarget target;
  const std::string whole = text;
  if (text.starts_with("ssh://")) text = text.substr(6);
  if (const auto at = text.rfind('@'); at != std::string::npos) {
    target.user = text.substr(0, at);
    text = text.substr(at + 1);
  }
  std::string port;
  if (text.starts_with("[")) {
    const auto close = text.find(']');
    if (close == std::string::npos) return invalidArgument("jump host '{}' is not closed", whole);
    port = text.substr(close + 1);
    target.host = text.substr(1, close - 1);
  } else {
    const auto colon = text.rfind(':');
    target.host = text.substr(0, colon);
    if (colon != std::string::npos) port = text.substr(colon);
  }
  if (!port.empty()) {
    const char* end = port.data() + port.size();
    const auto [rest, fault] = std::from_chars(port.data() + 1, end, target.port);
    if (port[0] != ':' || fault != std::errc() || rest != end || target.port < 1 ||
        target.port > 65535)
      return invalidArgument("jump host '{}' has no usable port", whole);
  }
  if (target.host.empty()) return invalidArgument("jump host '{}' has no name", whole);
  return target;
}

Status appendRoute(const SshTarget& target, const std::string& configFile, std::stop_token stop,
                   int depth, std::vector<SshConfig>* route) {
  if (depth > kDeepestRoute || route->size() > kDeepestRoute) {
    Error error = invalidArgument("the jump hosts of {} lead in a circle", target.host);
    error.next = "correct ProxyJump in the SSH configuration";
    return error;
  }
  LOCKSTEP_ASSIGN(SshConfig config, effectiveConfig(target, configFile, stop));
  bool first = true;
  for (const std::string& jump : words(config.proxyJump, ',')) {
    LOCKSTEP_ASSIGN(SshTarget hop, parseJump(jump));
    if (!first) hop.proxyJump = "none";  // reached through the one before it
    LOCKSTEP_TRY(appendRoute(hop, configFile, stop, depth + 1, route));
    if (!first) route->back().proxyCommand.clear();
    first = false;
  }
  route->push_back(std::move(config));
  return {};
}

// Options whose meaning depends on the rest of the configuration.
struct RawConfig {
  std::vector<std::string> identityFiles, certificateFiles;
  std::string agent, proxyCommand;
  bool passesDescriptor = false;  // ProxyUseFdpass
};

// `percent_expand` of OpenSSH knows these tokens in a ProxyCommand.
Result<std::string> expandProxyCommand(const std::string& command, const SshConfig& config) {
  std::string out;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i] != '%') {
      out += command[i];
      continue;
    }
    const char token = ++i < command.size() ? command[i] : '\0';
    if (token == '%')
      out += '%';
    else if (token == 'h')
      out += config.hostname;
    else if (token == 'n')
      out += config.alias;
    else if (token == 'p')
      out += std::to_string(config.port);
    else if (token == 'r')
      out += config.user;
    else if (token == 'k')
      out += config.hostKeyAlias.empty() ? config.hostname : config.hostKeyAlias;
    else
      return invalidArgument("the ProxyCommand of {} has an unknown token: {}", config.alias,
                             token ? std::string{'%', token} : "%");
  }
  return out;
}

// After all other options are known.
Status takeProxyCommand(const RawConfig& raw, SshConfig& config) {
  if (raw.proxyCommand.empty() || !config.proxyJump.empty()) return {};
  if (raw.passesDescriptor) {
    Error error =
        makeError(Code::kFailedPrecondition, "{} is reached with ProxyUseFdpass", config.alias);
    error.why = "ProxyUseFdpass is not supported";
    error.next = "let its ProxyCommand pass on the bytes, as nc does without -F, or use ProxyJump";
    return error;
  }
  LOCKSTEP_ASSIGN(config.proxyCommand, expandProxyCommand(raw.proxyCommand, config));
  return {};
}

// A line of `ssh -G`; options that do not matter here are passed over.
void takeOption(const std::string& key, const std::string& value, SshConfig& config,
                RawConfig& raw) {
  const auto number = [&](int* out) {
    std::from_chars(value.data(), value.data() + value.size(), *out);
  };
  if (key == "hostname")
    config.hostname = value;
  else if (key == "port")
    number(&config.port);
  else if (key == "user")
    config.user = value;
  else if (key == "identityfile")
    raw.identityFiles.push_back(value);
  else if (key == "certificatefile")
    raw.certificateFiles.push_back(value);
  else if (key == "identitiesonly")
    config.identitiesOnly = isYes(value);
  else if (key == "identityagent")
    raw.agent = value;
  else if (key == "proxyjump" && value != "none")
    config.proxyJump = value;
  else if (key == "proxycommand" && value != "none")
    raw.proxyCommand = value;
  else if (key == "proxyusefdpass")
    raw.passesDescriptor = isYes(value);
  else if (key == "userknownhostsfile")
    config.userKnownHosts = words(value);
  else if (key == "globalknownhostsfile")
    config.globalKnownHosts = words(value);
  else if (key == "hostkeyalias")
    config.hostKeyAlias = value;
  else if (key == "stricthostkeychecking")
    config.strictHostKeyChecking = value;
  else if (key == "hashknownhosts")
    config.hashKnownHosts = isYes(value);
  else if (key == "connecttimeout")
    number(&config.connectTimeoutSeconds);
  else if (key == "pubkeyauthentication")
    config.publicKey = value != "no" && value != "false";
  else if (key == "passwordauthentication")
    config.password = isYes(value);
  else if (key == "kbdinteractiveauthentication")
    config.keyboardInteractive = isYes(value);
  else if (key == "gssapiauthentication")
    config.gssapi = isYes(value);
  else if (key == "gssapidelegatecredentials")
    config.gssapiDelegate = isYes(value);
  else if (key == "batchmode")
    config.batchMode = isYes(value);
  else if (key == "ciphers")
    config.ciphers = words(value, ',');
  else if (key == "hostkeyalgorithms")
    config.hostKeyAlgorithms = words(value, ',');
}

}  // namespace

SshTarget targetOf(const spec::v1::SshSpec& spec) {
  return {spec.host(), spec.user(), spec.port(), spec.identity_file(), spec.proxy_jump()};
}

std::string SshConfig::knownHostsName() const {
  std::string name = hostKeyAlias.empty() ? hostname : hostKeyAlias;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (!hostKeyAlias.empty() || port == 22) return name;
  return fmt::format("[{}]:{}", name, port);
}

Result<SshConfig> parseEffectiveConfig(const std::string& text, const SshTarget& target) {
  SshConfig config;
  config.alias = target.host;
  RawConfig raw;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto space = line.find(' ');
    takeOption(line.substr(0, space), space == std::string::npos ? "" : line.substr(space + 1),
               config, raw);
  }
  if (config.hostname.empty() || config.user.empty())
    return invalidArgument("the SSH configuration of {} names no host or user", target.host);
  if (config.port < 1 || config.port > 65535)
    return invalidArgument("the SSH configuration of {} has port {}; expected 1 to 65535",
                           target.host, config.port);
  LOCKSTEP_TRY(takeProxyCommand(raw, config));
  std::string& strict = config.strictHostKeyChecking;
  if (strict == "true") strict = "yes";
  if (strict == "false" || strict == "off") strict = "no";
  config.identityAgent = agentSocket(raw.agent, config);
  // ssh leaves out a named file that is absent; it is kept here, so that its absence is reported.
  if (!target.identityFile.empty())
    raw.identityFiles.insert(raw.identityFiles.begin(), target.identityFile);
  config.identityFiles = expandFiles(raw.identityFiles, config);
  config.certificateFiles = expandFiles(raw.certificateFiles, config);
  for (auto* files : {&config.userKnownHosts, &config.globalKnownHosts}) {
    std::erase(*files, "none");
    for (std::string& file : *files) file = expand(file, config);
  }
  return config;
}

namespace {

// Checks a node's fields before ssh reports them as mistakes of its configuration.
Status checkTarget(const SshTarget& target) {
  for (const auto& [field, value] :
       {std::pair("host", &target.host), std::pair("user", &target.user)}) {
    constexpr std::string_view kQuotes = "'`\"$\\;&<>|(){}";  // as ssh refuses them
    const bool isUser = value == &target.user;                // a user may be DOMAIN\name
    const bool plain = std::none_of(value->begin(), value->end(), [&](unsigned char c) {
      return c <= ' ' || c == 0x7f ||
             (kQuotes.find(static_cast<char>(c)) != std::string_view::npos &&
              !(isUser && c == '\\'));
    });
    if (plain && !value->ends_with('\\')) continue;
    Error error = invalidArgument("ssh.{} is \"{}\"", field, *value);
    error.why = "no name has spaces, quotes or control characters";
    error.next = message("correct ssh.{} of the node in the cluster", field);
    return error;
  }
  // Exactly one colon: IPv6 addresses have more.
  const std::size_t colon = target.host.find(':');
  const std::string port = colon == std::string::npos ? "" : target.host.substr(colon + 1);
  if (!port.empty() && port.find_first_not_of("0123456789") == std::string::npos) {
    Error error = invalidArgument("ssh.host is \"{}\"", target.host);
    error.why = "the port is a field of its own";
    error.next = message("write host: {} and port: {}", target.host.substr(0, colon), port);
    return error;
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> sshArguments(const SshTarget& target,
                                              const std::string& configFile) {
  if (target.host.empty() || target.host.starts_with("-"))
    return invalidArgument("'{}' is not the name of a host", target.host);
  LOCKSTEP_TRY(checkTarget(target));
  std::vector<std::string> out;
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) out.insert(out.end(), {flag, value});
  };
  add("-F", configFile);
  if (target.port != 0) add("-p", std::to_string(target.port));
  add("-l", target.user);
  add("-i", target.identityFile);
  if (!target.proxyJump.empty()) out.push_back("-oProxyJump=" + target.proxyJump);
  out.insert(out.end(), {"--", target.host});
  return out;
}

Result<SshConfig> effectiveConfig(const SshTarget& target, const std::string& configFile,
                                  std::stop_token stop) {
  LOCKSTEP_ASSIGN(std::vector<std::string> argv, sshArguments(target, configFile));
  argv.insert(argv.begin(), {"ssh", "-G"});
  auto run = runProcess(argv, std::chrono::seconds(20), stop);
  if (!run.ok()) {
    Error error = run.error();
    if (error.code == Code::kNotFound) {
      error.code = Code::kFailedPrecondition;
      error.next = "install openssh-client";
    }
    return error;
  }
  if (run->exitStatus != 0) {
    Error error = invalidArgument("the SSH configuration of {} cannot be read", target.host);
    error.why = withoutLineEnds(run->errorOutput);
    error.next = message("correct {}", configFile.empty() ? "~/.ssh/config" : configFile);
    return error;
  }
  return parseEffectiveConfig(run->output, target);
}

Result<std::vector<SshConfig>> effectiveRoute(const SshTarget& target,
                                              const std::string& configFile, std::stop_token stop) {
  std::vector<SshConfig> route;
  LOCKSTEP_TRY(appendRoute(target, configFile, stop, 0, &route));
  return route;
}

}  // namespace lockstep::app
