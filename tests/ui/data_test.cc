// Samples of the data in the model page: images, rows and texts from real files, whole and damaged.
#include <zlib.h>

#include <QAbstractItemModelTester>
#include <QTest>
#include <QtWidgets>
#include <filesystem>
#include <random>

#include "tests/ui/studio_fixture.h"
#include "ui/models/data_table_model.h"
#include "ui/pages/data_panel.h"
#include "ui/pages/model_page.h"
#include "ui/studio/background.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/label_bars.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::wait;

namespace {

QByteArray idx(const QVector<quint32>& dimensions, const QByteArray& elements) {
  QByteArray out("\0\0\x08", 3);
  out += static_cast<char>(dimensions.size());
  for (const quint32 extent : dimensions)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(extent >> shift & 0xff);
  return out + elements;
}

QByteArray gzip(const QByteArray& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  QByteArray out(
      static_cast<qsizetype>(deflateBound(&stream, static_cast<uLong>(text.size()))) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(static_cast<qsizetype>(stream.total_out));
  deflateEnd(&stream);
  return out;
}

QString imageSpec(const char* images, const char* labels, const char* more = "") {
  return QString(
             "version: 1\nmodel:\n  input: {shape: [5, 4, 1]}\n  layers:\n    - flatten\n"
             "    - dense: {units: 10}\n  classes: 10\ndata:\n"
             "  train: {images: %1, labels: %2%3}\n"
             "  evaluate: {images: test-images, labels: test-labels}\ntraining: {batch: 8}\n")
      .arg(images, labels, more);
}

QString tableSpec(const char* part) {
  return QString(
             "version: 1\nmodel:\n  input: {shape: [2], columns: 1, categories: 9}\n  layers:\n"
             "    - {name: t, inputs: [categories], embedding: {units: 2}}\n"
             "    - {name: j, inputs: [input, t], concat: {}}\n    - dense: {units: 1}\n"
             "  loss: binary-cross-entropy\ndata:\n"
             "  train: {table: rows.tsv%1}\n  evaluate: {table: rows.tsv}\n"
             "training: {batch: 8}\n")
      .arg(part);
}

QString textSpec(const char* file) {
  return QString(
             "version: 1\nmodel:\n  input: {shape: [16], vocabulary: 256}\n  layers:\n"
             "    - embedding: {units: 8}\n    - dense: {units: 256}\ndata:\n"
             "  train: {text: %1, to: 0.5}\n  evaluate: {text: %1, from: 0.5}\n"
             "training: {batch: 2}\n")
      .arg(file);
}

}  // namespace

class DataTest : public QObject {
  Q_OBJECT

  std::unique_ptr<QTemporaryDir> folder_;
  std::unique_ptr<ModelPage> page_;
  DataPanel* panel_ = nullptr;
  std::unique_ptr<QAbstractItemModelTester> tester_;

  void write(const char* name, const QByteArray& bytes) const {
    QFile file(folder_->filePath(name));
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write(bytes) == bytes.size());
  }
  void open(const QString& text) {
    tester_.reset();
    page_.reset();
    auto document = std::make_unique<SpecDocument>(app::SpecKind::kRun, folder_->filePath("r"));
    document->start(text, folder_->filePath("model.yaml"));
    page_ = std::make_unique<ModelPage>(std::move(document));
    panel_ = page_->data();
    panel_->setExampleFolder(folder_->filePath("examples"));
    tester_ = std::make_unique<QAbstractItemModelTester>(panel_->samples());
    page_->resize(1000, 700);
    page_->showView(ModelPage::kDataView);
    page_->QWidget::show();
    QVERIFY(QTest::qWaitForWindowExposed(page_.get()));
    QVERIFY(idle());
  }
  bool idle() {
    return wait([this] { return !panel_->isBusy(); });
  }
  void type(const QString& text) {
    page_->document()->type(text);
    QVERIFY(idle());
  }
  template <typename T>
  T* part(const char* name) const {
    return panel_->findChild<T*>(name);
  }
  QString wrong() const {
    return part<QFrame>("dataError")->isVisible() ? part<QLabel>("dataErrorText")->text()
                                                  : QString();
  }
  void click(const char* name) {
    auto* button = part<QPushButton>(name);
    QVERIFY2(button->isEnabled() && button->isVisible(), name);
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(idle());
  }
  QVector<qint64> indices() const {
    QVector<qint64> out;
    for (const auto& sample : panel_->samples()->samples()) out << sample.index;
    return out;
  }

  // 40 images whose pixels tell which they are.
  QByteArray pixels_, labels_;
  void writeImages(const char* images, const char* labels) {
    write(images, idx({40, 5, 4}, pixels_));
    write(labels, idx({40}, labels_));
  }

 private Q_SLOTS:
  void initTestCase() { Theme::instance().apply(Theme::Mode::kLight); }
  void init() {
    folder_ = std::make_unique<QTemporaryDir>();
    std::mt19937 random(5);
    pixels_.clear();
    labels_.clear();
    for (int i = 0; i < 800; ++i) pixels_ += static_cast<char>(random() & 0xff);
    for (int i = 0; i < 40; ++i) labels_ += static_cast<char>(i * i % 10);
    writeImages("images", "labels");
    writeImages("test-images", "test-labels");
  }
  void cleanup() {
    tester_.reset();
    page_.reset();
    endBackground();
    Language::instance().set("en");
  }

  void imagesWithTheirLabels() {
    open(imageSpec("images", "labels"));
    QCOMPARE(wrong(), QString());
    QVERIFY(panel_->isChecked());
    QCOMPARE(part<QLabel>("dataFacts")->text(),
             QString::fromUtf8("Samples: 40 · images of 5 × 4 · files checked"));
    QCOMPARE(panel_->samples()->rowCount(), 24);
    auto* list = part<QListView>("dataImages");
    QVERIFY(list->isVisible());
    for (const int row : {0, 7, 23}) {
      const QModelIndex at = panel_->samples()->index(row, DataTableModel::kIndex);
      QCOMPARE(panel_->samples()->index(row, DataTableModel::kLabel).data().toString(),
               QString::number(labels_[row]));
      // Every pixel, enlarged.
      const QImage image = at.data(Qt::DecorationRole).value<QPixmap>().toImage();
      const int factor = image.height() / 5;
      QVERIFY(factor > 1 && image.width() == 4 * factor);
      for (int y = 0; y < 5; ++y)
        for (int x = 0; x < 4; ++x)
          QCOMPARE(qGray(image.pixel(x * factor + factor / 2, y * factor + factor / 2)),
                   int(static_cast<unsigned char>(pixels_[row * 20 + y * 4 + x])));
    }
    QMap<int, int> counts;
    for (const char label : labels_) ++counts[label];
    QStringList bars;
    for (auto it = counts.begin(); it != counts.end(); ++it)
      bars << QString("%1: %2").arg(it.key()).arg(it.value());
    QCOMPARE(part<LabelBars>("dataLabels")->text(), bars.join("; "));
  }

  // Red, green and blue in their colours; of two channels the first, in grey.
  void imagesWithChannels_data() {
    QTest::addColumn<int>("channels");
    for (const int channels : {2, 3, 4}) QTest::addRow("%d", channels) << channels;
  }
  void imagesWithChannels() {
    QFETCH(int, channels);
    std::mt19937 random(static_cast<unsigned>(channels));
    QByteArray pixels;
    for (int i = 0; i < 800; ++i)
      for (int channel = 0; channel < channels; ++channel)
        pixels += channel == 3 ? '\xff' : static_cast<char>(random() & 0xff);  // not see-through
    for (const char* name : {"images", "test-images"})
      write(name, idx({40, 5, 4, static_cast<quint32>(channels)}, pixels));
    open(imageSpec("images", "labels").replace("[5, 4, 1]", QString("[5, 4, %1]").arg(channels)));
    QCOMPARE(wrong(), QString());
    const QModelIndex at = panel_->samples()->index(3, DataTableModel::kIndex);
    const QImage image = at.data(Qt::DecorationRole).value<QPixmap>().toImage();
    const int factor = image.height() / 5;
    for (int y = 0; y < 5; ++y)
      for (int x = 0; x < 4; ++x) {
        const auto value = [&](int channel) {
          return int(static_cast<unsigned char>(
              pixels[((3 * 5 + y) * 4 + x) * channels + (channels < 3 ? 0 : channel)]));
        };
        QCOMPARE(image.pixelColor(x * factor + factor / 2, y * factor + factor / 2),
                 QColor(value(0), value(1), value(2)));
      }
  }

  // Random ones are in the set, different, and others each time; the first come back.
  void randomSamplesAndTheFirst() {
    open(imageSpec("images", "labels"));
    auto* count = part<QSpinBox>("dataCount");
    count->setFocus();
    count->selectAll();
    QTest::keyClicks(count, "6");
    click("dataFirst");
    QCOMPARE(indices(), (QVector<qint64>{0, 1, 2, 3, 4, 5}));
    QSet<QString> drawn;
    for (int i = 0; i < 6; ++i) {
      click("dataRandom");
      QVector<qint64> now = indices();
      QCOMPARE(now.size(), 6);
      for (qsizetype k = 0; k < now.size(); ++k) {
        QVERIFY(now[k] >= 0 && now[k] < 40 && (k == 0 || now[k] > now[k - 1]));
        QCOMPARE(panel_->samples()->samples()[static_cast<std::size_t>(k)].label,
                 std::to_string(labels_[static_cast<qsizetype>(now[k])]));
      }
      QString text;
      for (const qint64 one : now) text += QString("%1 ").arg(one);
      drawn << text;
    }
    QVERIFY(drawn.size() > 3);
    count->setValue(500);
    click("dataRandom");
    QCOMPARE(indices().size(), 40);  // all there are
  }

  void rowsOfATable_data() {
    QTest::addColumn<bool>("packed");
    QTest::newRow("plain") << false;
    QTest::newRow("gzip") << true;
  }
  void rowsOfATable() {
    QFETCH(bool, packed);
    QByteArray rows;
    for (int i = 0; i < 200; ++i)
      rows += QString("%1\t%2\t\tc%3\n").arg(i % 3 == 0).arg(i).arg(i % 7).toUtf8();
    write("rows.tsv", packed ? gzip(rows) : rows);
    open(tableSpec(", from: 0.5"));
    QCOMPARE(wrong(), QString());
    auto* table = part<QTableView>("dataTable");
    QVERIFY(table->isVisible());
    QCOMPARE(panel_->samples()->columnCount(), 5);
    const auto cell = [&](int row, int column) {
      return panel_->samples()->index(row, column).data().toString();
    };
    QCOMPARE(cell(0, DataTableModel::kIndex), QString("#0"));
    QCOMPARE(cell(0, 2), QString("100"));  // the second half
    QCOMPARE(cell(0, 3), QString());
    QCOMPARE(cell(5, 4), QString("c%1").arg(105 % 7));
    QCOMPARE(part<QLabel>("dataFacts")->text(),
             QString::fromUtf8("Samples: 100 · rows (numbers: 2, categories: 1) · files checked"));
    QCOMPARE(part<LabelBars>("dataLabels")->text(), QString("0: 67; 1: 33"));
    // Another part of the data.
    part<QComboBox>("dataSplit")->setCurrentIndex(1);
    QVERIFY(idle());
    QCOMPARE(cell(0, 2), QString("0"));
  }

  // The columns of CSV have their names; another choice in the spec shows others.
  void columnsOfCsv() {
    QByteArray rows = "size,kind,colour\n";
    for (int i = 0; i < 50; ++i)
      rows += QString("%1,%2,\"red, %3\"\n").arg(i).arg(i % 2 ? "dog" : "cat").arg(i).toUtf8();
    write("rows.tsv", rows);
    const QString spec =
        tableSpec("").replace("shape: [2]", "shape: [1]").replace("training:", "%1training:");
    const char* const csv =
        "  csv: {label: kind, numbers: [size], categories: [%1], classes: [cat, dog]}\n";
    open(spec.arg(QString(csv).arg("colour")));
    QCOMPARE(wrong(), QString());
    const auto* samples = panel_->samples();
    const auto header = [&](int column) {
      return samples->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString();
    };
    QCOMPARE(samples->columnCount(), 4);
    QCOMPARE(header(2), QString("size"));
    QCOMPARE(header(3), QString("colour"));
    QCOMPARE(samples->index(3, 3).data().toString(), QString("red, 3"));
    QCOMPARE(samples->index(3, DataTableModel::kLabel).data().toString(), QString("dog"));
    QCOMPARE(part<LabelBars>("dataLabels")->text(), QString("0: 25; 1: 25"));
    type(spec.arg(QString(csv).arg("colours")));
    QVERIFY2(wrong().contains("its header has no column \"colours\"; it has size, kind, colour"),
             qPrintable(wrong()));
    type(spec.arg(QString(csv).arg("kind")));
    QVERIFY2(wrong().contains("is the label"), qPrintable(wrong()));
    type(spec.arg(QString(csv).arg("size")));
    QCOMPARE(wrong(), QString());
    QCOMPARE(header(3), QString("size"));
  }

  void textsAndBytes() {
    QByteArray text;
    for (int i = 0; i < 100; ++i) text += QString("line %1\n").arg(i).toUtf8();
    text[3] = '\x01';
    write("words.txt", text);
    open(textSpec("words.txt"));
    QCOMPARE(wrong(), QString());
    QCOMPARE(panel_->samples()->index(0, 1).data().toString(),
             QString::fromUtf8("lin· 0↵line 1↵li"));
    QVERIFY(part<QLabel>("dataFacts")->text().contains("texts of 16 tokens"));
    QVERIFY(part<LabelBars>("dataLabels")->isHidden());
  }

  // Integers of several files, and of one that numpy has written.
  void tokensAndTheirNumbers_data() {
    QTest::addColumn<QString>("files");
    QTest::newRow("shards of u16") << "shard-*.bin";
    QTest::newRow("npy of u32") << "tokens.npy";
  }
  void tokensAndTheirNumbers() {
    QFETCH(QString, files);
    const bool npy = files.endsWith(".npy");
    QByteArray bytes;
    for (int i = 0; i < 120; ++i) {
      bytes += static_cast<char>(i);
      bytes += QByteArray(npy ? 3 : 1, '\0');
    }
    if (npy) {
      const QByteArray header =
          QByteArray("{'descr': '<u4', 'fortran_order': False, 'shape': (120,), }")
              .leftJustified(117, ' ') +
          '\n';
      write("tokens.npy", QByteArray("\x93NUMPY\x01\x00\x76\x00", 10) + header + bytes);
    } else {
      write("shard-1.bin", bytes.left(100));
      write("shard-2.bin", bytes.mid(100));
    }
    open(textSpec("x").replace("text: x", "tokens: '" + files + "'"));
    QCOMPARE(wrong(), QString());
    const auto* samples = panel_->samples();
    QCOMPARE(samples->headerData(1, Qt::Horizontal, Qt::DisplayRole).toString(), QString("Tokens"));
    QVERIFY(part<QLabel>("dataFacts")->text().contains("texts of 16 tokens"));
    QStringList first;
    for (int i = 0; i < 16; ++i) first << QString::number(i);
    QVERIFY2(samples->index(0, 1).data().toString().startsWith(first.join(' ')),
             qPrintable(samples->index(0, 1).data().toString()));
  }

  // What is wrong is said in place, with the file; mending the file or the spec is enough.
  void damageIsSaidInPlace_data() {
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QString>("says");
    QTest::addColumn<bool>("samplesToo");
    const QByteArray whole = idx({40, 5, 4}, QByteArray(800, 'a'));
    QTest::newRow("empty") << QByteArray() << "too short" << false;
    QTest::newRow("magic") << "JFIF" + whole << "neither an IDX file" << false;
    QTest::newRow("truncated") << whole.chopped(100) << "declares 800 bytes" << false;
    QTest::newRow("other shape") << idx({40, 4, 4}, QByteArray(640, 'a')) << "4x4" << false;
    QTest::newRow("other count") << idx({39, 5, 4}, QByteArray(780, 'a')) << "39 images" << false;
    // The first samples can be read, and the end cannot.
    QByteArray noise;
    std::mt19937 random(3);
    for (int i = 0; i < 800; ++i) noise += static_cast<char>(random() & 0xff);
    QTest::newRow("gzip truncated")
        << gzip(idx({40, 5, 4}, noise)).chopped(6) << "truncated" << true;
  }
  void damageIsSaidInPlace() {
    QFETCH(QByteArray, bytes);
    QFETCH(QString, says);
    QFETCH(bool, samplesToo);
    write("damaged", bytes);
    open(imageSpec("damaged", "labels"));
    QVERIFY2(wrong().contains("damaged") && wrong().contains(says), qPrintable(wrong()));
    QVERIFY(!panel_->isChecked());
    QCOMPARE(panel_->samples()->rowCount() > 0, samplesToo);
    panel_->grab();
    type(imageSpec("images", "labels"));
    QCOMPARE(wrong(), QString());
    QCOMPARE(panel_->samples()->rowCount(), 24);
  }

  void missingFilesAndWrongHashes() {
    open(imageSpec("nowhere", "labels"));
    QVERIFY2(wrong().contains("nowhere"), qPrintable(wrong()));
    QVERIFY(!part<QPushButton>("dataMake")->isVisible());
    type(imageSpec("images", "labels",
                   ", images_sha256: "
                   "0000000000000000000000000000000000000000000000000000000000000000"));
    QVERIFY2(wrong().contains("sha256"), qPrintable(wrong()));
    QCOMPARE(panel_->samples()->rowCount(), 24);
    type(imageSpec("images", ""));
    QVERIFY(!wrong().isEmpty());
    // A mistake in the layers is none of the data.
    type(imageSpec("images", "labels").replace("units: 10", "unitz: 10"));
    QCOMPARE(wrong(), QString());
    QCOMPARE(panel_->samples()->rowCount(), 24);
  }

  void malformedRowsAreMarked() {
    write("rows.tsv", "1\t2\t3\ta\n0\tx\t3\ta\n1\t2\n");
    open(tableSpec(""));
    QVERIFY2(wrong().contains("line 2"), qPrintable(wrong()));
    QCOMPARE(panel_->samples()->rowCount(), 3);
    QVERIFY(panel_->samples()->index(2, 0).data(Qt::ToolTipRole).toString().contains("line 3"));
    QVERIFY(!panel_->samples()->index(0, 0).data(Qt::ToolTipRole).isValid());
  }

  // The check of files that are too large for one in passing, and its end.
  void longWorkIsCancelled() {
    constexpr qint64 kImages = 4'000'000;
    write("many", idx({kImages, 5, 4}, {}));
    write("names", idx({kImages}, {}));
    std::filesystem::resize_file(folder_->filePath("many").toStdString(),
                                 static_cast<std::uintmax_t>(16 + kImages * 20));
    std::filesystem::resize_file(folder_->filePath("names").toStdString(),
                                 static_cast<std::uintmax_t>(8 + kImages));
    open(imageSpec("many", "names"));
    QCOMPARE(wrong(), QString());
    QVERIFY(!panel_->isChecked());
    QVERIFY(part<QLabel>("dataFacts")->text().startsWith("Samples: 4,000,000 "));
    auto* check = part<QPushButton>("dataCheck");
    QTest::mouseClick(check, Qt::LeftButton);
    QVERIFY(panel_->isBusy());
    QVERIFY(part<QWidget>("dataWorking")->isVisible());
    QTest::mouseClick(part<QPushButton>("dataCancel"), Qt::LeftButton);
    QVERIFY(idle());
    QVERIFY(panel_->error() && panel_->error()->code == Code::kCancelled);
    QCOMPARE(panel_->samples()->rowCount(), 24);
    click("dataCheck");
    QVERIFY(panel_->isChecked());
    QCOMPARE(wrong(), QString());
    // A page that is closed meanwhile waits for nothing.
    QTest::mouseClick(part<QPushButton>("dataFirst"), Qt::LeftButton);
    tester_.reset();
    page_.reset();
  }

  void aTextOfAnExampleIsMade() {
    if (QStandardPaths::findExecutable("bible").isEmpty()) QSKIP("bible-kjv is not installed");
    open(textSpec("kjv.txt"));
    QVERIFY2(wrong().contains("kjv.txt"), qPrintable(wrong()));
    click("dataMake");
    QVERIFY(wait([&] { return !panel_->isBusy() && panel_->isChecked(); }, 60'000));
    QVERIFY2(panel_->samples()->index(0, 1).data().toString().contains("Genesis"),
             qPrintable(panel_->samples()->index(0, 1).data().toString()));
  }

  void languages() {
    open(imageSpec("nowhere", "labels"));
    const QString english = wrong();
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return wrong() != english; }));
    QVERIFY(wrong().contains("nowhere"));
    type(imageSpec("images", "labels"));
    QVERIFY(!part<QLabel>("dataFacts")->text().contains("images of"));
  }
};

QTEST_MAIN(DataTest)
#include "data_test.moc"
