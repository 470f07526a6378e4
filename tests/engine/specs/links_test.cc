// Clusters by pattern and class: names that stand for several nodes, which entry of links is of
// which nodes, and what that makes of the links along axes.
#include "engine/specs/links.h"

#include <QElapsedTimer>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "engine/base/random.h"
#include "engine/cluster/assumed.h"
#include "engine/cluster/data_sheets.h"
#include "engine/specs/node_names.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"

using namespace lockstep;
using namespace lockstep::specs;
using spec::v1::ClusterSpec;
using spec::v1::LinkSpec;

namespace {

QString messageOf(const Status& status) {
  return status.ok()
             ? QString("no error")
             : QString::fromStdString(status.error().field + " | " + status.error().what.text());
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t most) { return randomBits(seed_, at_++) % most; }
  template <typename T>
  T of(std::vector<T> from) {
    return from[below(from.size())];
  }

 private:
  std::uint64_t seed_, at_ = 0;
};

// Nodes of two racks, one rank each.
ClusterSpec racks(int racks, int nodes) {
  ClusterSpec spec;
  for (int r = 0; r < racks; ++r)
    for (int n = 0; n < nodes; ++n) spec.add_nodes()->set_name(fmt::format("rack{}-n{}", r, n));
  return spec;
}

// By plain recursion, to compare with.
bool matchesPlainly(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*')
    return matchesPlainly(pattern.substr(1), name) ||
           (!name.empty() && matchesPlainly(pattern, name.substr(1)));
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         matchesPlainly(pattern.substr(1), name.substr(1));
}

int entryOf(const ClusterSpec& spec, const std::string& a, const std::string& b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
    for (int i = 0; i < spec.links_size(); ++i)
      if (matchesPlainly(spec.links(i).from(), from) && matchesPlainly(spec.links(i).to(), to))
        return i;
  return -1;
}

ClusterSpec gpuNodes(int nodes, const std::string& model) {
  ClusterSpec spec;
  spec.set_comm("nccl");
  for (int i = 0; i < nodes; ++i) {
    auto& node = *spec.add_nodes();
    node.set_name(fmt::format("n{}", i));
    auto& device = *node.add_devices();
    device.set_kind("cuda");
    device.set_count(8);
    device.set_model(model);
  }
  return spec;
}

LinkSpec& addLink(ClusterSpec& spec, const std::string& from, const std::string& to) {
  LinkSpec& link = *spec.add_links();
  link.set_from(from);
  link.set_to(to);
  return link;
}

}  // namespace

class LinksTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // What the spec offers is what the tables have.
  void specsOfferAllSheets() {
    const auto values = [](const google::protobuf::Descriptor* type, const char* field) {
      const auto& all = optionOf(*type->FindFieldByName(field)).values();
      return std::set<std::string>(all.begin(), all.end());
    };
    std::set<std::string> models, kinds;
    for (const auto& sheet : cluster::deviceSheets()) models.emplace(sheet.model);
    for (const auto& sheet : cluster::linkSheets()) kinds.emplace(sheet.kind);
    QVERIFY(values(spec::v1::DeviceSpec::descriptor(), "model") == models);
    QVERIFY(values(LinkSpec::descriptor(), "kind") == kinds);
    for (const auto& sheet : cluster::deviceSheets()) {
      QVERIFY(sheet.fp32 <= sheet.tf32 && sheet.tf32 <= sheet.fp16);
      QVERIFY(sheet.bf16 == sheet.fp16 || sheet.bf16 == sheet.fp32);
      QVERIFY(sheet.memoryBytes >= 15'000'000'000 && sheet.memoryBytesPerSecond >= 300e9);
    }
  }

  void rangesOfNames() {
    using Names = std::vector<std::string>;
    QCOMPARE(*expandRanges("n1"), (Names{"n1"}));
    QCOMPARE(*expandRanges("n[1-3]"), (Names{"n1", "n2", "n3"}));
    QCOMPARE(*expandRanges("n[08-11,3].lab"),
             (Names{"n08.lab", "n09.lab", "n10.lab", "n11.lab", "n3.lab"}));
    QCOMPARE(*expandRanges("r[1-2]n[1-2]"), (Names{"r1n1", "r1n2", "r2n1", "r2n2"}));
    QCOMPARE(*expandRanges("[::1]"), (Names{"[::1]"}));
    for (const char* wrong : {"n[]", "n[3-1]", "n[1-]", "n[,]", "n[1,]", "n[-]", "n[1-2-3]",
                              "n[0-4096]", "n[0-99][0-99]", "n[9999999999]"})
      QVERIFY2(!expandRanges(wrong).ok(), wrong);
    QCOMPARE(*expandRanges("[[1]"), (Names{"[1"}));
    QCOMPARE(*expandRanges("[1,a][2]"), (Names{"[1,a]2"}));
    QCOMPARE(*expandRanges("n[5,5]"), (Names{"n5", "n5"}));
    // Written as one range or as its numbers, it is the same; so is each as a pattern.
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Dice dice(seed);
      const int first = static_cast<int>(dice.below(200)),
                count = 1 + static_cast<int>(dice.below(300));
      const int width = 1 + static_cast<int>(dice.below(4));
      Names names;
      for (int i = first; i < first + count; ++i)
        names.push_back(fmt::format("x{:0{}}-y", i, width));
      const std::string range = fmt::format("x[{:0{}}-{}]-y", first, width, first + count - 1);
      QCOMPARE(*expandRanges(range), names);
      const auto pattern = NamePattern::parse(range);
      QVERIFY(pattern.ok() && pattern->hasNamesOnly());
      for (const std::string& name : names) QVERIFY(pattern->matches(name));
      QVERIFY(!pattern->matches(fmt::format("x{:0{}}-y", first + count, width)));
    }
  }

  void wrongRangesAreTold() {
    const auto of = [](const std::string& text) {
      return QString::fromStdString(expandRanges(text).error().what.text());
    };
    QCOMPARE(of("n[1-1000000000]"),
             "[1-1000000000] is no range: 1000000000 has more than 9 digits");
    QCOMPARE(of("n[128-1]"), "[128-1] is no range: 128 is after 1");
    QCOMPARE(of("n[1-]"), "[1-] is no range; expected numbers as [1-8] or [1,3,5-8]");
    QCOMPARE(of("[1][1][1][1][1][1][1][1][1]"),
             "[1][1][1][1][1][1][1][1][1] has more than 8 ranges");
    // Of any length, without a copy of it, or a call, for each of the ranges.
    std::string many;
    for (int i = 0; i < 1 << 18; ++i) many += "[1]";
    QCOMPARE(of(many), "a name with ranges has 786432 characters; expected 256 at most");
    QCOMPARE(of(std::string(1 << 20, 'a') + "[1-4096]"),
             "a name with ranges has 1048584 characters; expected 256 at most");
    const std::string open(1 << 20, '[');
    QCOMPARE(*expandRanges(open + "a]"), (std::vector{open + "a]"}));
    QCOMPARE(expandRanges(open)->size(), std::size_t{1});
  }

  // Nothing is copied that memory could not hold.
  void expandedNodesAreBounded() {
    const auto of = [](const std::function<void(spec::v1::NodeSpec&)>& change) {
      ClusterSpec spec;
      spec.add_nodes()->set_name("n[1-4096]");
      change(*spec.mutable_nodes(0));
      return messageOf(withExpandedNodes(spec).status());
    };
    const std::string large(std::size_t{1} << 20, 'a');
    QCOMPARE(of([](auto& node) { node.mutable_ssh()->set_host("n[1-4096].lab"); }), "no error");
    QVERIFY(of([&](auto& node) {
              node.mutable_ssh()->set_host(large);
            }).startsWith("nodes[0] | 4096 nodes of 1024 KiB each are too large; at most 64 MiB"));
    for (const QString& wrong :
         {of([&](auto& node) { node.set_workdir(large); }), of([](auto& node) {
            for (int i = 0; i < 100'000; ++i) node.add_devices();
          })})
      QVERIFY2(wrong.contains("are too large; at most 64 MiB of nodes are read"),
               qPrintable(wrong));
    // Together, too.
    ClusterSpec spec;
    for (int i = 0; i < 8; ++i) {
      spec.add_nodes()->set_name(fmt::format("{}-[1-512]", i));
      spec.mutable_nodes(i)->set_workdir(std::string(std::size_t{30} << 10, 'a'));
    }
    QVERIFY(
        messageOf(withExpandedNodes(spec).status()).startsWith("nodes[4] | 512 nodes of 30 KiB"));
  }

  // What is left stands for the same names but one, in the fewest ranges.
  void oneOfARangeIsLeftOut() {
    QCOMPARE(*withoutText("n[1-8]", 3), std::string("n[1-3,5-8]"));
    QCOMPARE(*withoutText("n[08-11].lab", 0), std::string("n[09-11].lab"));
    QCOMPARE(*withoutText("n[1,5]", 1), std::string("n1"));
    QCOMPARE(*withoutText("head", 0), std::string("head"));
    QCOMPARE(withoutText("n[5]", 0).error().what.text(), std::string("n[5] stands for one name"));
    const auto several = withoutText("r[1-2]n[1-2]", 1);
    QVERIFY(!several.ok() && several.error().text().find("several ranges") != std::string::npos);
    std::minstd_rand random(11);
    for (int trial = 0; trial < 500; ++trial) {
      std::string text = "a[";
      for (unsigned part = 0; part <= random() % 4; ++part) {
        const unsigned from = random() % 120, width = random() % 4;
        text += fmt::format("{}{:0{}}-{}", part == 0 ? "" : ",", from, width, from + random() % 9);
      }
      text += "]b";
      const auto names = expandRanges(text);
      if (!names.ok() || names->size() < 2) continue;
      auto expected = *names;
      const std::size_t index = random() % expected.size();
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(index));
      const auto left = withoutText(text, index);
      QVERIFY2(left.ok() && *expandRanges(*left) == expected, text.c_str());
    }
  }

  void patternsOfNames() {
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
      Dice dice(seed);
      std::string pattern, name;
      for (std::uint64_t i = dice.below(7); i > 0; --i)
        pattern += dice.of<char>({'a', 'b', '*', '?'});
      for (std::uint64_t i = dice.below(8); i > 0; --i) name += dice.of<char>({'a', 'b'});
      QVERIFY2(NamePattern::parse(pattern)->matches(name) == matchesPlainly(pattern, name),
               (pattern + " " + name).c_str());
    }
    // With ranges: as one of the patterns that it stands for.
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
      Dice dice(seed);
      std::string pattern, name;
      for (std::uint64_t i = dice.below(6); i > 0; --i)
        pattern += dice.of<std::string>({"a", "*a", "?", "1", "a*a", "[1-12]", "[08-11]", "[1,3]"});
      for (std::uint64_t i = dice.below(8); i > 0; --i)
        name += dice.of<std::string>({"a", "1", "0", "3", "11", "08"});
      const auto parsed = NamePattern::parse(pattern);
      if (!parsed.ok()) continue;
      bool matches = false;
      for (const std::string& one : *expandRanges(pattern))
        matches = matches || matchesPlainly(one, name);
      QVERIFY2(parsed->matches(name) == matches, (pattern + " " + name).c_str());
    }
    // A * beside a range could match digits of the number.
    for (const char* wrong : {"n[1-4]*", "*[1-4]", "r[1-2]*[3-4]"})
      QVERIFY2(!NamePattern::parse(wrong).ok(), wrong);
    QCOMPARE(QString::fromStdString(NamePattern::parse("n[1-4]*").error().what.text()),
             "n[1-4]* has a range beside *, which matches digits too; expected a character between "
             "them, as n[1-4]-*");
    QVERIFY(NamePattern::parse("n[1-4]-*")->matches("n4-a"));
    QVERIFY(!NamePattern::parse("n[1-4]-*")->matches("n40-a"));
  }

  void nodesAreExpanded() {
    ClusterSpec spec;
    auto& one = *spec.add_nodes();
    one.set_name("login");
    auto& many = *spec.add_nodes();
    many.set_name("n[01-64]");
    many.mutable_ssh()->set_host("n[01-64].lab");
    many.set_address("10.0.0.[1-64]");
    many.set_workdir("/scratch");
    const auto all = withExpandedNodes(spec);
    QVERIFY(all.ok());
    QCOMPARE(all->nodes_size(), 65);
    QCOMPARE(all->nodes(0).name(), std::string("login"));
    QVERIFY(!all->nodes(0).has_ssh());
    QCOMPARE(all->nodes(64).name(), std::string("n64"));
    QCOMPARE(all->nodes(9).ssh().host(), std::string("n09.lab"));
    QCOMPARE(all->nodes(9).address(), std::string("10.0.0.9"));
    QCOMPARE(all->nodes(9).workdir(), std::string("/scratch"));
    QCOMPARE(writtenField(spec, "nodes[0].name"), std::string("nodes[0].name"));
    for (int i = 1; i < 65; ++i)
      QCOMPARE(writtenField(spec, fmt::format("nodes[{}].devices[2].kind", i)),
               std::string("nodes[1].devices[2].kind"));
    QCOMPARE(writtenField(spec, "links[5].to"), std::string("links[5].to"));
    many.set_address("10.0.0.[1-63]");
    QCOMPARE(messageOf(withExpandedNodes(spec).status()),
             "nodes[1].address | 10.0.0.[1-63] stands for 63, and the node's name n[01-64] for 64; "
             "expected as many");
    many.set_address("");
    many.set_name("n[9-1]");
    QCOMPARE(messageOf(withExpandedNodes(spec).status()),
             "nodes[1].name | [9-1] is no range: 9 is after 1");
  }

  void linksAreChecked() {
    const auto of = [](const std::function<void(ClusterSpec&)>& change) {
      ClusterSpec spec = racks(2, 4);
      change(spec);
      return messageOf(checkLinks(spec));
    };
    QCOMPARE(of([](ClusterSpec& spec) { addLink(spec, "rack0-*", "rack1-*"); }), "no error");
    QCOMPARE(of([](ClusterSpec& spec) { addLink(spec, "rack0-*", "rack7-*"); }),
             "links[0].to | no node has a name like rack7-*");
    QCOMPARE(of([](ClusterSpec& spec) { addLink(spec, "rack0-n9", "*"); }),
             "links[0].from | there is no node rack0-n9; expected the name of one");
    QCOMPARE(of([](ClusterSpec& spec) { addLink(spec, "*", "*").set_inside("*"); }),
             "links[0].from | from and inside are both given; expected from and to, or inside");
    QCOMPARE(of([](ClusterSpec& spec) { spec.add_links()->set_from("*"); }),
             "links[0].to | to is missing; expected from and to, or inside");
    QCOMPARE(of([](ClusterSpec& spec) { addLink(spec, "rack0-n1", "rack0-n1"); }),
             "links[0].to | both ends are node rack0-n1; expected inside: rack0-n1, or another "
             "node");
    QCOMPARE(of([](ClusterSpec& spec) { addLink(spec, "*", "*").set_kind("nvlink-4"); }),
             "links[0].kind | nvlink-4 links the devices of a node; expected it with inside, or a "
             "kind of network");
    QCOMPARE(of([](ClusterSpec& spec) {
               LinkSpec& link = *spec.add_links();
               link.set_inside("*");
               link.set_kind("ndr");
             }),
             "links[0].kind | ndr links nodes; expected nvlink or pcie");
    QCOMPARE(of([](ClusterSpec& spec) {
               addLink(spec, "*", "*");
               addLink(spec, "rack0-*", "rack1-*");
             }),
             "links[1] | it never applies: earlier entries match the same nodes; expected it "
             "before them, or left out");
    // A range is that of nodes that are there.
    QCOMPARE(of([](ClusterSpec& spec) { addLink(spec, "rack0-n[0-3]", "rack[0-1]-n[0-3]"); }),
             "no error");
    QCOMPARE(of([](ClusterSpec& spec) { addLink(spec, "*", "rack1-n[2-5]"); }),
             "links[0].to | rack1-n[2-5] stands for rack1-n4, and there is no such node");
    QCOMPARE(of([](ClusterSpec& spec) { addLink(spec, "rack0-n1", "rack0-n[1]"); }),
             "links[0].to | both ends are node rack0-n1; expected inside: rack0-n1, or another "
             "node");
    QVERIFY(of([](ClusterSpec& spec) {
              addLink(spec, "rack[0-1]*", "*");
            }).startsWith("links[0].from | rack[0-1]* has a range beside *"));
    // Both directions of a link may be given.
    QCOMPARE(of([](ClusterSpec& spec) {
               addLink(spec, "rack0-n0", "rack1-n0");
               addLink(spec, "rack1-n0", "rack0-n0");
             }),
             "no error");
    ClusterSpec alone = racks(1, 1);
    addLink(alone, "*", "*");
    QCOMPARE(messageOf(checkLinks(alone)), "no error");
    ClusterSpec placed;
    placed.mutable_placement()->set_nodes(4);
    addLink(placed, "gpu-*", "gpu-*");
    QCOMPARE(messageOf(checkLinks(placed)), "no error");
  }

  // As many entries as nodes, in every form: what is told of them takes no time to speak of.
  void manyLinksAreChecked_data() {
    using Entry = std::function<void(LinkSpec&, int)>;
    QTest::addColumn<Entry>("entry");
    QTest::addRow("inside") << Entry(
        [](LinkSpec& link, int i) { link.set_inside(fmt::format("n{}", i)); });
    QTest::addRow("ring") << Entry([](LinkSpec& link, int i) {
      link.set_from(fmt::format("n{}", i));
      link.set_to(fmt::format("n{}", i % kMaxRanks + 1));
    });
    QTest::addRow("fan") << Entry([](LinkSpec& link, int i) {
      link.set_from("n*");
      link.set_to(fmt::format("n{}", i));
    });
    QTest::addRow("range") << Entry([](LinkSpec& link, int i) {
      link.set_from(fmt::format("n[1-{}]", i));
      link.set_to(fmt::format("n[{}-4096]", i));
    });
  }
  void manyLinksAreChecked() {
    QFETCH(std::function<void(LinkSpec&, int)>, entry);
    ClusterSpec spec = gpuNodes(kMaxRanks, "");
    for (int i = 0; i < kMaxRanks; ++i) {
      spec.mutable_nodes(i)->set_name(fmt::format("n{}", i + 1));
      spec.mutable_nodes(i)->mutable_devices(0)->set_count(1);
      entry(*spec.add_links(), i + 1);
    }
    QElapsedTimer time;
    time.start();
    QCOMPARE(messageOf(toCluster(spec, {}, {}).status()), "no error");
    const qint64 made = time.restart();
    (void)checkLinks(spec);
    qInfo("made in %lld ms, checked in %lld ms", made, time.elapsed());
    QVERIFY(made + time.elapsed() < 60'000);
    (void)spec.add_links();
    QCOMPARE(messageOf(toCluster(spec, {}, {}).status()), "links | there are more than 4096 links");
  }

  // Random entries on random clusters, against every pair of nodes looked up by itself.
  void firstThatMatchesApplies() {
    int refused = 0, slowed = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      Dice dice(seed);
      ClusterSpec spec =
          racks(1 + static_cast<int>(dice.below(3)), 1 + static_cast<int>(dice.below(4)));
      for (std::uint64_t i = 1 + dice.below(5); i > 0; --i) {
        const auto end = [&] {
          const int n = static_cast<int>(dice.below(static_cast<std::uint64_t>(spec.nodes_size())));
          return dice.of<std::string>(
              {"*", spec.nodes(n).name(), "rack0-*", "*-n0", "rack?-n1", spec.nodes(n).name()});
        };
        const std::string from = end(), to = end();
        addLink(spec, from, to).set_bandwidth_mbit(static_cast<double>(100 + dice.below(20000)));
      }
      std::set<int> applied, able;
      double slowest = spec.nodes_size() > 1 ? 2e9 : 5e9;  // of gloo and of shared memory
      bool matches = true;
      for (const auto& link : spec.links())
        for (const std::string* end : {&link.from(), &link.to()})
          matches = matches && std::ranges::any_of(spec.nodes(), [&](const auto& node) {
                      return matchesPlainly(*end, node.name());
                    });
      for (const auto& a : spec.nodes()) {
        for (const auto& b : spec.nodes()) {
          if (a.name() == b.name()) continue;
          for (int i = 0; i < spec.links_size(); ++i)
            if (matchesPlainly(spec.links(i).from(), a.name()) &&
                matchesPlainly(spec.links(i).to(), b.name()))
              able.insert(i);
          const int entry = entryOf(spec, a.name(), b.name());
          applied.insert(entry);
          QCOMPARE(bandwidthBetween(spec, a.name(), b.name()),
                   entry < 0 ? 0 : spec.links(entry).bandwidth_mbit() * 1e6 / 8);
          if (entry >= 0) slowest = std::min(slowest, spec.links(entry).bandwidth_mbit() * 1e6 / 8);
        }
      }
      for (int i = 0; i < spec.links_size(); ++i) {
        const LinkSpec& link = spec.links(i);
        const bool isSelf =
            link.from() == link.to() && link.from().find_first_of("*?") == std::string::npos;
        matches = matches && !isSelf && (applied.contains(i) || !able.contains(i));
      }
      QCOMPARE(checkLinks(spec).ok(), matches);
      refused += matches ? 0 : 1;
      const auto made = toCluster(spec, {}, {});
      QVERIFY(made.ok());
      QCOMPARE(made->link.bytesPerSecond, slowest);
      slowed += slowest < 2e9 ? 1 : 0;
    }
    QVERIFY(refused > 40 && refused < 360 && slowed > 100);
  }

  // Groups share a node's adapters; a rank alone on its node has one of them.
  void adaptersAreShared() {
    for (const int rails : {1, 2, 4, 8, 16}) {
      for (const int tensor : {1, 2, 8}) {
        ClusterSpec spec = gpuNodes(4, "H100-SXM-80GB");
        LinkSpec& link = addLink(spec, "n*", "n*");
        link.set_bandwidth_mbit(400'000);
        link.set_rails(rails);
        spec::v1::StrategySpec strategy;
        strategy.set_kind("multi-worker-mirrored");
        strategy.set_tensor(tensor);
        const auto made = toCluster(spec, {}, strategy);
        QVERIFY2(made.ok(), messageOf(made.status()).toUtf8());
        const double adapter = 50e9, groups = tensor, ranks = 8.0 / tensor;
        const double nvlink = cluster::kReachedOfLinks * 450e9;
        const double network = std::min(rails / groups, ranks) * adapter;
        QCOMPARE(made->links.at("data").bytesPerSecond,
                 tensor < 8 ? std::min(network, nvlink) : network);
        if (tensor > 1) QCOMPARE(made->links.at("model").bytesPerSecond, nvlink);
      }
    }
  }

  // 128 nodes in two lines of links.
  void linksInsideAndBetween() {
    ClusterSpec spec = gpuNodes(128, "A100-SXM-80GB");
    LinkSpec& inside = *spec.add_links();
    inside.set_inside("n[0-63]");
    inside.set_kind("pcie-4");
    LinkSpec& between = addLink(spec, "*", "*");
    between.set_kind("hdr");
    between.set_rails(8);
    QCOMPARE(messageOf(checkLinks(spec)), "no error");
    spec::v1::StrategySpec strategy;
    strategy.set_kind("pipeline");
    strategy.set_tensor(8);
    strategy.set_stages(16);
    const auto made = toCluster(spec, {}, strategy);
    QVERIFY2(made.ok(), messageOf(made.status()).toUtf8());
    const double share = cluster::kReachedOfLinks;
    QCOMPARE(made->links.at("model").bytesPerSecond, share * 31.5e9);  // the slower nodes
    QCOMPARE(made->links.at("data").bytesPerSecond, share * 25e9);
    QCOMPARE(made->links.at("stage").bytesPerSecond, share * 25e9);
    QCOMPARE(made->link.bytesPerSecond, share * 25e9);
    QCOMPARE(made->devices[5].figures.model, std::string("A100-SXM-80GB"));
  }

  // A spec without links is planned with the links of a DGX A100: as a spec that gives these links,
  // and as one whose GPUs have no model.
  void anAdapterForEachGpuIsAssumed() {
    for (const int tensor : {1, 2, 4, 8, 16}) {
      for (const char* kind : {"multi-worker-mirrored", "pipeline"}) {
        spec::v1::StrategySpec strategy;
        strategy.set_kind(kind);
        strategy.set_tensor(tensor);
        if (kind == std::string("pipeline")) strategy.set_stages(2);
        ClusterSpec said = gpuNodes(4, "A100-SXM-80GB");
        addLink(said, "n*", "n*").set_kind("hdr");
        said.mutable_links(0)->set_rails(8);
        const auto of = [&](const ClusterSpec& spec) {
          const auto made = toCluster(spec, {}, strategy);
          if (!made.ok()) qFatal("%s", made.error().text().c_str());
          std::map<std::string, double> out{{"slowest", made->link.bytesPerSecond}};
          for (const auto& [axis, link] : made->links) out[axis] = link.bytesPerSecond;
          return out;
        };
        const auto rates = of(said);
        QVERIFY2(rates == of(gpuNodes(4, "A100-SXM-80GB")), kind);
        QVERIFY2(rates == of(gpuNodes(4, "")), kind);
        const double adapter = cluster::kReachedOfLinks * 25e9;
        if (kind == std::string("multi-worker-mirrored") && tensor < 8)
          QCOMPARE(rates.at("data"), std::min(8.0 / tensor, 12.0) * adapter);
      }
    }
  }

  // Of NCCL a latency is what the spec says; what the processor sends never takes less than is
  // assumed of it.
  void latenciesAreAsGiven() {
    for (const double microseconds : {1.0, 5.0, 20.0, 500.0}) {
      ClusterSpec spec = gpuNodes(2, "");
      for (auto& node : *spec.mutable_nodes()) node.mutable_devices(0)->set_count(1);
      addLink(spec, "n0", "n1").set_latency_us(microseconds);
      QVERIFY(std::abs(toCluster(spec, {}, {})->links.at("data").latency / microseconds - 1e-6) <
              1e-12);
      spec.set_comm("gloo");
      QCOMPARE(toCluster(spec, {}, {})->links.at("data").latency,
               std::max(1e-4, microseconds * 1e-6));
    }
  }
};

QTEST_GUILESS_MAIN(LinksTest)
#include "links_test.moc"
