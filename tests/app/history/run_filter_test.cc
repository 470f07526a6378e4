// Tags, filters and saved filters of the history: random ones against plain code over the same
// rows.
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <ctime>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "app/history/history.h"
#include "app/history/run_table.h"
#include "engine/base/clock.h"
#include "engine/storage/database.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

using Random = std::mt19937_64;
constexpr Nanoseconds kDay = 86'400'000'000'000;

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}
template <typename T>
const T& oneOf(Random& random, const std::vector<T>& all) {
  return all[random() % all.size()];
}

// Words with everything that means something to a filter, to SQL or to LIKE.
const std::vector<std::string> kTexts{"gpt-tiny",
                                      "GPT-Tiny",
                                      "fashion-cnn",
                                      "a b",
                                      "100%",
                                      "x_y",
                                      "x.y",
                                      "\"quoted\"",
                                      "'; DROP TABLE run; --",
                                      "back\\slash",
                                      "tag:x",
                                      "a,b",
                                      "*",
                                      "-minus",
                                      "模型",
                                      "ünïcödé",
                                      "\xff\xfe",
                                      "%",
                                      "_",
                                      "z",
                                      "zero-2",
                                      "since:2026-01-01",
                                      "a  b",
                                      "\\%",
                                      "(",
                                      "?1"};
const std::vector<std::string> kTags{"good", "old", "Baseline", "lr:3e-4", "x_y", "100%", "标签",
                                     "it's", "a.b", "#1",       "v2",      "%",   "_"};

RunRow randomRow(Random& random, int index) {
  RunRow row;
  row.run = fmt::format("2026{:05}-{:x}", index, random() % 0xffff);
  row.name = oneOf(random, kTexts);
  row.strategy = oneOf(random, kTexts);
  row.clusterName = random() % 4 == 0 ? "" : oneOf(random, kTexts);
  row.comm = random() % 2 == 0 ? "gloo" : "shm";
  if (random() % 3 == 0) row.notes = oneOf(random, kTexts) + "\n" + oneOf(random, kTexts);
  row.phase = static_cast<RunState>(1 + random() % 9);
  row.createdNs = 1'780'000'000'000'000'000 + static_cast<std::int64_t>(random() % 400) * kDay / 4;
  row.unreachableNs = random() % 8 == 0 ? 1 : 0;
  row.figures.trainLoss = 1;
  std::set<std::string> tags;
  for (auto count = random() % 4; count > 0; --count) tags.insert(oneOf(random, kTags));
  row.tags = {tags.begin(), tags.end()};
  return row;
}

bool contains(const RunRow& row, const std::string& word) {
  std::vector<std::string> places{row.run, row.name, row.notes, row.strategy, row.clusterName};
  places.insert(places.end(), row.tags.begin(), row.tags.end());
  return std::any_of(places.begin(), places.end(), [&](const std::string& place) {
    return lower(place).find(lower(word)) != std::string::npos;
  });
}

// Whether `text` begins with the pieces' first, ends with their last, and has the others between.
bool matches(const std::string& text, const std::vector<std::string>& pieces) {
  if (pieces.size() == 1) return text == pieces[0];
  if (!text.starts_with(pieces.front())) return false;
  std::size_t at = pieces.front().size();
  for (std::size_t i = 1; i + 1 < pieces.size(); ++i) {
    at = text.find(pieces[i], at);
    if (at == std::string::npos) return false;
    at += pieces[i].size();
  }
  return text.size() >= at + pieces.back().size() && text.ends_with(pieces.back());
}

struct Term {
  std::string text;
  std::function<bool(const RunRow&)> holds;
};

Term wordTerm(Random& random) {
  const std::string& word = oneOf(random, kTexts);
  return {RunFilter::quoted(word), [word](const RunRow& row) { return contains(row, word); }};
}

Term keyTerm(Random& random) {
  using Values = std::function<std::vector<std::string>(const RunRow&)>;
  const std::vector<std::pair<std::string, Values>> keys{
      {"tag", [](const RunRow& row) { return row.tags; }},
      {"model", [](const RunRow& row) { return std::vector{row.name}; }},
      {"strategy", [](const RunRow& row) { return std::vector{row.strategy}; }},
      {"cluster", [](const RunRow& row) { return std::vector{row.clusterName}; }},
      {"comm", [](const RunRow& row) { return std::vector{row.comm}; }},
      {"notes", [](const RunRow& row) { return std::vector{row.notes}; }}};
  const auto& [key, values] = oneOf(random, keys);
  std::string text = random() % 4 == 0 ? "TAG:" : key + ":";
  const Values of = text == "TAG:" ? keys[0].second : values;
  std::vector<std::vector<std::string>> patterns;
  for (auto count = 1 + random() % 2; count > 0; --count) {
    std::string value = oneOf(random, key == "tag" ? kTags : kTexts);
    if (!patterns.empty()) text += ",";
    std::vector<std::string> pieces{lower(value)};
    text += RunFilter::quoted(value);
    if (random() % 3 == 0) {  // ab* or *ab
      const bool begins = random() % 2 == 0;
      text = text.substr(0, text.size() - RunFilter::quoted(value).size());
      text += begins ? RunFilter::quoted(value) + "*" : "*" + RunFilter::quoted(value);
      pieces.insert(begins ? pieces.end() : pieces.begin(), "");
    }
    patterns.push_back(pieces);
  }
  return {text, [of, patterns](const RunRow& row) {
            const auto all = of(row);
            return std::any_of(all.begin(), all.end(), [&](const std::string& one) {
              return std::any_of(patterns.begin(), patterns.end(),
                                 [&](const auto& pattern) { return matches(lower(one), pattern); });
            });
          }};
}

Term stateTerm(Random& random) {
  const auto state = static_cast<RunState>(1 + random() % 9);
  if (random() % 5 == 0)
    return {fmt::format("state:{},unreachable", stateName(state)),
            [state](const RunRow& row) { return row.phase == state || row.unreachableNs != 0; }};
  return {fmt::format("state:{}", stateName(state)),
          [state](const RunRow& row) { return row.phase == state; }};
}

Term timeTerm(Random& random, Nanoseconds now) {
  const bool since = random() % 2 == 0;
  std::string text;
  Nanoseconds time = 0;
  if (random() % 2 == 0) {
    const auto days = static_cast<std::int64_t>(random() % 120);
    text = fmt::format("{}d", days);
    time = now - days * kDay;
  } else {
    const std::time_t day = 1'780'000'000 + static_cast<std::time_t>(random() % 100) * 86400;
    std::tm local{};
    localtime_r(&day, &local);
    text = fmt::format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
    local.tm_hour = local.tm_min = local.tm_sec = 0;
    local.tm_isdst = -1;
    time = std::int64_t{std::mktime(&local)} * 1'000'000'000;
  }
  return {(since ? "since:" : "before:") + text,
          [=](const RunRow& row) { return since == (row.createdNs >= time); }};
}

Term randomTerm(Random& random, Nanoseconds now) {
  const auto kind = random() % 6;
  Term term = kind < 2   ? wordTerm(random)
              : kind < 4 ? keyTerm(random)
              : kind < 5 ? stateTerm(random)
                         : timeTerm(random, now);
  if (random() % 3 != 0) return term;
  return {"-" + term.text, [holds = term.holds](const RunRow& row) { return !holds(row); }};
}

std::vector<std::string> idsOf(const std::vector<RunRow>& rows) {
  std::vector<std::string> out;
  for (const RunRow& row : rows) out.push_back(row.run);
  return out;
}

std::string joined(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, " "));
}

}  // namespace

class RunFilterTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    qputenv("TZ", "Europe/Berlin");
    tzset();
  }
  void init() {
    dir_ = std::make_unique<QTemporaryDir>();
    auto opened = History::open(dir_->path().toStdString());
    QVERIFY(opened.ok());
    history_ = std::move(opened).value();
  }

  // Random rows and filters, against the meaning of a filter in plain code.
  void randomFilters_data() {
    QTest::addColumn<quint64>("seed");
    for (const quint64 seed : {1, 2, 3, 4, 5, 6})
      QTest::newRow(QByteArray::number(seed).constData()) << seed;
  }
  void randomFilters() {
    QFETCH(quint64, seed);
    Random random(seed);
    std::vector<RunRow> rows;
    for (int i = 0; i < 40; ++i) rows.push_back(randomRow(random, i));
    for (const RunRow& row : rows) QVERIFY(history_->add(row, {}).ok());
    std::sort(rows.begin(), rows.end(), [](const RunRow& a, const RunRow& b) {
      return std::tie(b.createdNs, b.run) < std::tie(a.createdNs, a.run);
    });
    constexpr Nanoseconds kNow = 1'788'000'000'000'000'000;
    int some = 0;
    for (int round = 0; round < 250; ++round) {
      std::vector<Term> terms;
      std::string text;
      for (auto count = 1 + random() % 3; count > 0; --count) {
        terms.push_back(randomTerm(random, kNow));
        text += (text.empty() ? "" : random() % 2 == 0 ? "  " : "\u3000") + terms.back().text;
      }
      const auto filter = RunFilter::parse(text, kNow);
      QVERIFY2(filter.ok(), (text + ": " + (filter.ok() ? "" : filter.error().text())).c_str());
      const auto listed = history_->list(*filter);
      QVERIFY2(listed.ok(), text.c_str());
      std::vector<std::string> expected;
      for (const RunRow& row : rows)
        if (std::all_of(terms.begin(), terms.end(),
                        [&](const Term& term) { return term.holds(row); }))
          expected.push_back(row.run);
      if (idsOf(*listed) != expected)
        qWarning("%s", fmt::format("filter {}\n listed {}\n expected {}", text,
                                   joined(idsOf(*listed)), joined(expected))
                           .c_str());
      QCOMPARE(idsOf(*listed), expected);
      some += !expected.empty() && expected.size() < rows.size();
    }
    QVERIFY2(some > 100, "too few filters that tell runs apart");
  }

  // The text of --contains and of a quoted word is no pattern.
  void anyTextIsFoundAsItIs() {
    int index = 0;
    for (const std::string& text : kTexts) {
      RunRow row;
      row.run = fmt::format("r{}", index++);
      row.name = "<" + text + ">";
      QVERIFY(history_->add(row, {}).ok());
    }
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      const std::string whole = "<" + kTexts[i] + ">";
      const auto found = history_->list(RunFilter::containing(whole));
      QVERIFY(found.ok());
      const auto ids = idsOf(*found);
      QVERIFY2(std::find(ids.begin(), ids.end(), fmt::format("r{}", i)) != ids.end(),
               whole.c_str());
      for (const RunRow& row : *found) QCOMPARE(lower(row.name), lower(whole));
      const auto exact = RunFilter::parse("model:" + RunFilter::quoted(whole), 0);
      QVERIFY(exact.ok());
      QCOMPARE(idsOf(*history_->list(*exact)), ids);
    }
  }

  void whatIsWrongIsSaid_data() {
    QTest::addColumn<QString>("filter");
    QTest::addColumn<QString>("says");
    const auto add = [](const char* filter, const char* says) {
      QTest::newRow(filter) << QString(filter) << QString(says);
    };
    add("tga:good", "a filter has no \"tga:\"");
    add("tga:good", "did you mean tag?");
    add("http://host", "put text that has a colon in quotes");
    add("state:faild", "did you mean failed?");
    add("state:", "\"state:\" has no value");
    add("tag: good", "\"tag:\" has no value");
    add("tag:a,,b", "\"tag:\" has no value");
    add("since:yesterday", "\"yesterday\" is not a date or an age");
    add("since:2026-02-30", "is not a date");
    add("since:2026-13-01", "is not a date");
    add("since:2026-1-1", "is not a date");
    add("since:99999999d", "is not a date");
    add("before:-3d", "is not a date");
    add("before:2026-01-01,2026-02-01", "\"before:\" takes one time");
    add("\"open", "a quote is not closed: \"open");
    add("model:\"a b", "a quote is not closed");
    add("\"\"", "the filter has empty quotes");
    add("model:*a*b*c*d*e*", "more than 4 stars");
    QTest::newRow("long") << QString(2001, 'a') << QString("too long");
    QTest::newRow("many") << QString("a ").repeated(65) << QString("too many words");
    QTest::newRow("control") << QString("a\x1b[2J") << QString("a control character");
  }
  void whatIsWrongIsSaid() {
    QFETCH(QString, filter);
    QFETCH(QString, says);
    const auto parsed = RunFilter::parse(filter.toStdString(), wallNow());
    QVERIFY(!parsed.ok());
    QCOMPARE(parsed.error().code, Code::kInvalidArgument);
    QVERIFY2(QString::fromStdString(parsed.error().text()).contains(says),
             parsed.error().text().c_str());
    // Nothing of the kind is saved.
    QVERIFY(!history_->saveFilter({"mine", filter.toStdString()}).ok());
    QVERIFY(history_->savedFilters()->empty());
  }

  // Whatever bytes it is given, it says so or lists.
  void anyBytesAreAFilterOrNone() {
    RunRow row;
    row.run = "a";
    row.name = "\xff";
    QVERIFY(history_->add(row, {}).ok());
    Random random(7);
    const std::string bytes = "\"\\:,*-% _'()?\x01\xff\xe3\x80 tagse:d2026-";
    for (int round = 0; round < 4000; ++round) {
      std::string text;
      for (auto length = random() % 24; length > 0; --length)
        text += random() % 8 == 0 ? static_cast<char>(random()) : bytes[random() % bytes.size()];
      if (const auto filter = RunFilter::parse(text, wallNow()); filter.ok()) {
        const auto listed = history_->list(*filter);
        QVERIFY2(listed.ok(), QByteArray::fromStdString(text).toHex());
      } else {
        QCOMPARE(filter.error().code, Code::kInvalidArgument);
      }
    }
  }

  // Local time, on the days when clocks are changed too.
  void datesAreLocal() {
    RunRow row;
    row.run = "a";
    row.createdNs = 1'774'738'800'000'000'000;  // 2026-03-29 00:00 in Berlin: summer time begins
    QVERIFY(history_->add(row, {}).ok());
    const auto count = [&](const char* text, Nanoseconds now = 0) {
      return history_->list(*RunFilter::parse(text, now))->size();
    };
    QCOMPARE(count("since:2026-03-29"), 1u);
    QCOMPARE(count("before:2026-03-29"), 0u);
    QCOMPARE(count("since:2026-03-29T00:01"), 0u);
    QCOMPARE(count("before:2026-03-29T00:01"), 1u);
    QCOMPARE(count("since:2026-03-30"), 0u);
    QCOMPARE(count("since:2026-03-28"), 1u);
    QCOMPARE(count("since:today", row.createdNs + kDay / 2), 1u);
    QCOMPARE(count("since:today", row.createdNs + kDay), 0u);
    QCOMPARE(count("since:1d", row.createdNs + kDay), 1u);
    QCOMPARE(count("since:23h", row.createdNs + kDay), 0u);
    QCOMPARE(count("SINCE:2026-03-29t00:00"), 1u);
  }

  void tagsOfSeveralRunsAtOnce() {
    Random random(11);
    std::map<std::string, std::map<std::string, std::string>> plain;  // by run; lower case to tag
    std::vector<std::string> runs;
    for (int i = 0; i < 12; ++i) {
      RunRow row;
      row.run = fmt::format("run{}", i);
      QVERIFY(history_->add(row, {}).ok());
      runs.push_back(row.run);
      plain[row.run];
    }
    for (int round = 0; round < 300; ++round) {
      std::vector<std::string> chosen;
      for (const std::string& run : runs)
        if (random() % 3 == 0) chosen.push_back(run);
      TagChange change;
      for (auto count = random() % 3; count > 0; --count)
        change.add.push_back(oneOf(random, kTags));
      for (auto count = random() % 3; count > 0; --count) {
        std::string tag = oneOf(random, kTags);
        if (random() % 2 == 0) tag[0] = static_cast<char>(std::toupper(tag[0]));
        change.remove.push_back(tag);
      }
      QVERIFY(history_->changeTags(chosen, change).ok());
      for (const std::string& run : chosen) {
        for (const std::string& tag : change.remove) plain[run].erase(lower(tag));
        for (const std::string& tag : change.add) plain[run].try_emplace(lower(tag), tag);
      }
    }
    std::map<std::string, int> uses;
    for (const std::string& run : runs) {
      std::vector<std::string> expected;
      for (const auto& [key, tag] : plain[run]) expected.push_back(tag), ++uses[key];
      auto kept = history_->row(run)->tags;
      std::sort(kept.begin(), kept.end(),
                [](const auto& a, const auto& b) { return lower(a) < lower(b); });
      QCOMPARE(kept, expected);
    }
    const auto inUse = history_->tags();
    QCOMPARE(inUse->size(), uses.size());
    for (const TagUse& use : *inUse) QCOMPARE(use.runs, uses[lower(use.tag)]);
  }

  void whatIsNoTagChangesNothing() {
    for (const char* run : {"a", "b"}) {
      RunRow row;
      row.run = run;
      QVERIFY(history_->add(row, {}).ok());
    }
    for (const std::string& bad :
         {std::string(), std::string("a b"), std::string("a,b"), std::string("-a"),
          std::string("+a"), std::string("a\"b"), std::string("a*"), std::string("a\\"),
          std::string("a\nb"), std::string("\x1b[2J"), std::string("\xff"),
          std::string("\xed\xa0\x80"), std::string("a\u3000b"), std::string("a\uff0cb"),
          std::string("\u009b"), std::string(65, 'a'), std::string("a\0b", 3)}) {
      const Status done = history_->changeTags({"a", "b"}, {{"fine", bad}, {}});
      QVERIFY2(done.code() == Code::kInvalidArgument, bad.c_str());
      QVERIFY(history_->row("a")->tags.empty() && history_->row("b")->tags.empty());
    }
    QCOMPARE(history_->changeTags({"a", "none"}, {{"fine"}, {}}).code(), Code::kNotFound);
    QVERIFY(history_->row("a")->tags.empty());
    TagChange many;
    for (int i = 0; i < 65; ++i) many.add.push_back(fmt::format("t{}", i));
    QCOMPARE(history_->changeTags({"a"}, many).code(), Code::kInvalidArgument);
    QVERIFY(history_->row("a")->tags.empty());
    many.add.pop_back();
    QVERIFY(history_->changeTags({"a"}, many).ok());
    QCOMPARE(history_->row("a")->tags.size(), 64u);
    QVERIFY(parseTagChange({"+good", "-old"}).ok());
    QCOMPARE(parseTagChange({"good"}).error().next.text(),
             std::string("write +good to add it, -good to remove it"));
    QCOMPARE(joined(tagWords(" a,b\u3000c\uff0cd  e ")), std::string("a b c d e"));
  }

  // A recorder writes the row it has in memory; what a person wrote meanwhile stays.
  void notesAndTagsOfARunningRunStay() {
    RunRow row;
    row.run = "a";
    row.phase = RunState::RUNNING;
    QVERIFY(history_->add(row, {}).ok());
    QVERIFY(history_->setNotes("a", "watch the loss").ok());
    QVERIFY(history_->changeTags({"a"}, {{"good"}, {}}).ok());
    row.figures.steps = 70;
    row.phase = RunState::SUCCEEDED;
    QVERIFY(history_->update(row).ok());
    const auto kept = history_->row("a");
    QCOMPARE(kept->figures.steps, std::int64_t{70});
    QCOMPARE(kept->phase, RunState::SUCCEEDED);
    QCOMPARE(kept->notes, std::string("watch the loss"));
    QCOMPARE(joined(kept->tags), std::string("good"));
  }

  // history.db is made again from the files of the runs: with their tags.
  void tagsOutliveALostHistory() {
    RunRow row;
    row.run = "a";
    row.phase = RunState::SUCCEEDED;
    row.tags = {"one"};
    QVERIFY(history_->add(row, {}).ok());
    QVERIFY(history_->changeTags({"a"}, {{"two", "it's"}, {"one"}}).ok());
    history_.reset();
    const std::string folder = dir_->path().toStdString();
    for (const char* ending : {"", "-wal", "-shm"})
      QFile::remove(QString::fromStdString(folder + "/history.db" + ending));
    const auto again = History::open(folder);
    QVERIFY(again.ok());
    QCOMPARE(joined((*again)->row("a")->tags), std::string("it's two"));
    QVERIFY((*again)->remove("a").ok());
    QVERIFY((*again)->tags()->empty());
  }

  // A home of the version before: with its runs and notes, and then tags and filters.
  void anOlderHistoryIsKept() {
    history_.reset();
    QTemporaryDir old;
    const std::string folder = old.path().toStdString();
    {
      const auto first = storage::Database::open(
          folder + "/history.db",
          {"CREATE TABLE run(run TEXT PRIMARY KEY, name TEXT, notes TEXT, phase INTEGER, created "
           "INTEGER, started INTEGER, finished INTEGER, generation INTEGER, world INTEGER, "
           "strategy "
           "TEXT, comm TEXT, plan_hash TEXT, version TEXT, predicted_step REAL, measured_step "
           "REAL, "
           "steps INTEGER, epochs INTEGER, train_loss REAL, eval_loss REAL, eval_metric REAL, "
           "samples_per_second REAL, weights_sha256 TEXT, cluster TEXT, error TEXT, model_file "
           "TEXT, "
           "resumed_from TEXT, metric TEXT NOT NULL DEFAULT 'accuracy');"
           "CREATE INDEX run_created ON run(created);"
           "CREATE TABLE document(run TEXT PRIMARY KEY, spec TEXT, resolved TEXT, cluster TEXT, "
           "plan TEXT, prediction TEXT, nodes TEXT);",
           "SELECT 1", "CREATE TABLE deleted(run TEXT PRIMARY KEY, nodes TEXT);",
           "ALTER TABLE run ADD COLUMN unreachable INTEGER NOT NULL DEFAULT 0;",
           "ALTER TABLE run ADD COLUMN error_message TEXT NOT NULL DEFAULT '';",
           "ALTER TABLE run ADD COLUMN lost_seconds REAL NOT NULL DEFAULT 0;"
           "INSERT INTO run(run,name,notes,phase,created,train_loss) "
           "VALUES('a','gpt','kept',5,7,0.5),('b',NULL,NULL,NULL,NULL,NULL);"});
      QVERIFY2(first.ok(), first.ok() ? "" : first.error().text().c_str());
    }
    const auto history = History::open(folder);
    QVERIFY2(history.ok(), history.ok() ? "" : history.error().text().c_str());
    QCOMPARE((*history)->list()->size(), 2u);
    QCOMPARE((*history)->row("a")->notes, std::string("kept"));
    QVERIFY((*history)->row("a")->tags.empty());
    QVERIFY((*history)->changeTags({"a", "b"}, {{"good"}, {}}).ok());
    QVERIFY((*history)->saveFilter({"mine", "tag:good state:succeeded"}).ok());
    const auto list = [&](const char* text) {
      return joined(idsOf(*(*history)->list(*RunFilter::parse(text, wallNow()))));
    };
    QCOMPARE(list((*history)->savedFilter("mine")->text.c_str()), std::string("a"));
    QCOMPARE(list("-model:gpt"), std::string("b"));
    QCOMPARE(list("kept"), std::string("a"));
    QCOMPARE(list("-kept"), std::string("b"));
  }

  void savedFilters() {
    QVERIFY(history_->saveFilter({"失败的", "state:failed"}).ok());
    QVERIFY(history_->saveFilter({"it's \"mine\"", "tag:x"}).ok());
    QVERIFY(history_->saveFilter({"IT'S \"MINE\"", "tag:y"}).ok());
    QCOMPARE(history_->savedFilters()->size(), 2u);
    QCOMPARE(history_->savedFilter("it's \"mine\"")->text, std::string("tag:y"));
    for (const std::string& bad : {std::string(), std::string("  "), std::string("a\nb"),
                                   std::string("\xff"), std::string(65, 'x')})
      QCOMPARE(history_->saveFilter({bad, "tag:x"}).code(), Code::kInvalidArgument);
    // Another program sees it, and that there is something to see.
    const auto other = History::open(history_->folder());
    const auto changes = (*other)->changes();
    QVERIFY(history_->removeFilter("失败的").ok());
    QVERIFY((*other)->changes() != changes);
    QCOMPARE((*other)->savedFilters()->size(), 1u);
    QCOMPARE(history_->removeFilter("失败的").code(), Code::kNotFound);
    QCOMPARE(history_->savedFilter("nobody's").error().code, Code::kNotFound);
  }

  // They outlive history.db; what is no filter in the file beside it does not come back.
  void savedFiltersOutliveTheList() {
    const std::string folder = history_->folder();
    QVERIFY(history_->saveFilter({"失败的", "state:failed"}).ok());
    QVERIFY(history_->saveFilter({"it's \"mine\"", "tag:x"}).ok());
    QVERIFY(history_->saveFilter({"old", "tag:y"}).ok());
    QVERIFY(history_->removeFilter("old").ok());
    const auto again = [&] {
      history_.reset();
      for (const char* file : {"/history.db", "/history.db-wal", "/history.db-shm"})
        QFile::remove(QString::fromStdString(folder + file));
      history_ = std::move(History::open(folder)).value();
      std::string all;
      for (const SavedFilter& filter : *history_->savedFilters())
        all += filter.name + "=" + filter.text + "\n";
      return all;
    };
    const std::string both = "it's \"mine\"=tag:x\n失败的=state:failed\n";
    QCOMPARE(again(), both);
    QCOMPARE(again(), both);
    const QString file = QString::fromStdString(folder + "/filters.json");
    for (const auto& [content, expected] :
         std::initializer_list<std::pair<const char*, const char*>>{
             {"", ""},
             {"[", ""},
             {"{}", ""},
             {"[1, \"a\", null, {}, {\"name\": 5, \"text\": \"tag:x\"}, {\"name\": \"a\"}]", ""},
             {"[{\"name\": \"a\\nb\", \"text\": \"tag:x\"}, {\"name\": \"b\", \"text\": "
              "\"tag:x\"}]",
              "b=tag:x\n"}}) {
      QFile writes(file);
      QVERIFY(writes.open(QIODevice::WriteOnly | QIODevice::Truncate));
      writes.write(content);
      writes.close();
      QCOMPARE(again(), std::string(expected));
    }
  }

  // Two programs tag at once: neither loses the other's.
  void twoProgramsAtOnce() {
    for (const char* run : {"a", "b"}) {
      RunRow row;
      row.run = run;
      QVERIFY(history_->add(row, {}).ok());
    }
    std::atomic<int> failed = 0;
    const auto work = [&](const std::string& prefix) {
      const auto history = History::open(history_->folder());
      for (int i = 0; i < 25; ++i)
        if (!history.ok() ||
            !(*history)->changeTags({"a", "b"}, {{fmt::format("{}{}", prefix, i)}, {}}).ok())
          ++failed;
    };
    std::thread one(work, "x"), two(work, "y");
    one.join();
    two.join();
    QCOMPARE(failed.load(), 0);
    QCOMPARE(history_->row("a")->tags.size(), 50u);
    QCOMPARE(history_->row("b")->tags.size(), 50u);
  }

  // Ten thousand runs, three tags each: at most 0.2 s a filter, on a processor of its own.
  void manyRunsAreFilteredQuickly() {
    Random random(3);
    history_.reset();
    {
      // Straight into the table: the files of ten thousand runs are of no use here.
      auto database =
          storage::Database::open(dir_->path().toStdString() + "/history.db", historySchemas());
      QVERIFY2(database.ok(), database.ok() ? "" : database.error().text().c_str());
      storage::Transaction transaction(**database);
      storage::Statement add(**database,
                             "INSERT INTO run(run,name,notes,phase,created,strategy,cluster,comm) "
                             "VALUES(?,?,?,?,?,?,?,?)");
      storage::Statement tag(**database, "INSERT OR IGNORE INTO tag VALUES(?,?)");
      for (int i = 0; i < 10000; ++i) {
        const RunRow row = randomRow(random, i);
        QVERIFY(add.bind(std::string_view(row.run))
                    .bind(std::string_view(row.name))
                    .bind(std::string_view(row.notes + std::string(300, 'n')))
                    .bind(static_cast<int>(row.phase))
                    .bind(row.createdNs)
                    .bind(std::string_view(row.strategy))
                    .bind(std::string_view(row.clusterName))
                    .bind(std::string_view(row.comm))
                    .run()
                    .ok());
        for (int k = 0; k < 3; ++k)
          QVERIFY(tag.bind(std::string_view(row.run))
                      .bind(std::string_view(oneOf(random, kTags)))
                      .run()
                      .ok());
      }
      QVERIFY(transaction.commit().ok());
    }
    auto opened = History::open(dir_->path().toStdString());
    QVERIFY(opened.ok());
    history_ = std::move(*opened);
    for (const char* text :
         {"", "tag:good", "-tag:good -tag:v2 gpt", "state:failed since:2026-06-01", "nowhere",
          "tag:*o* model:*t*n*y* cnn", "tag:good,old strategy:zero* n"}) {
      const auto filter = RunFilter::parse(text, wallNow());
      QVERIFY(filter.ok());
      double best = 1e9;
      std::size_t found = 0;
      for (int time = 0; time < 3; ++time) {
        const Nanoseconds begin = threadCpuNow();
        const auto rows = history_->list(*filter);
        best = std::min(best, static_cast<double>(threadCpuNow() - begin) * 1e-6);
        QVERIFY(rows.ok());
        found = rows->size();
      }
      qInfo("%-32s %5zu runs, %.1f ms", text, found, best);
      QVERIFY2(best < 200, text);
    }
  }

 private:
  std::unique_ptr<QTemporaryDir> dir_;
  std::unique_ptr<History> history_;
};

QTEST_GUILESS_MAIN(RunFilterTest)
#include "run_filter_test.moc"
