#include "app/ssh/prompter.h"

#include <algorithm>

namespace lockstep::app {
namespace {

class ListedHostKeys : public SshPrompter {
 public:
  explicit ListedHostKeys(std::vector<std::string> fingerprints)
      : fingerprints_(std::move(fingerprints)) {}
  void askHostKey(const HostKeyQuestion& question, std::function<void(bool)> answer) override {
    answer(std::find(fingerprints_.begin(), fingerprints_.end(), question.fingerprint) !=
           fingerprints_.end());
  }
  void askSecret(const SecretQuestion&,
                 std::function<void(std::optional<Secret>)> answer) override {
    answer(std::nullopt);
  }

 private:
  std::vector<std::string> fingerprints_;
};

}  // namespace

std::shared_ptr<SshPrompter> listedHostKeys(std::vector<std::string> fingerprints) {
  return std::make_shared<ListedHostKeys>(std::move(fingerprints));
}

}  // namespace lockstep::app
