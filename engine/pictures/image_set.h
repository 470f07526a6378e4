// Sets of labelled pictures, and their IDX files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/progress.h"
#include "engine/base/status.h"

namespace lockstep::pictures {

struct ImageSet {
  std::vector<std::string> classes;  // by label
  struct Image {
    std::string path;
    int label = 0;
  };
  std::vector<Image> images;
};

// Finds the pictures (*.jpg, *.jpeg, *.png, in any case) of
//   a folder: each of its subfolders is a class, at any depth, as for torchvision's ImageFolder; of
//   a class each folder counts once, however many symbolic links lead to it
//   any other file: lines of a path, relative to that file's folder, a tab or spaces, and a class
// Classes are numbered in the order of their names; of a list, in that of their values where all
// are whole numbers. `classes`, if any, gives their numbers: those of the training data, say; it is
// an error if a picture has another. Hidden files and folders are left out. Images are in the
// order of class and path, of a list in its own order. Errors name the folder, or the file and
// line.
Result<ImageSet> findImages(const std::string& source, const std::vector<std::string>& classes);

// The lines of a file of classes, as writeImages() writes it.
Result<std::vector<std::string>> readClasses(const std::string& path);

struct ImageForm {
  std::int64_t height = 0, width = 0;
  bool grey = false;
};
// Removes the images that cannot be decoded and returns why, each with its path.
Result<std::vector<Error>> removeDamaged(ImageSet& set, const Progress& progress = {});

struct ImageFiles {
  std::string images, labels, classes;  // paths
};
// Decodes the images and fits each to the size (picture.h), on all cores, and writes
// PREFIX-images.idx, PREFIX-labels.idx and PREFIX-classes.txt. `progress` counts images. Errors: of
// the first image that cannot be read; kInvalidArgument if there are none; kResourceExhausted where
// the file would be larger than data sets may be; of the file system; kCancelled. The files are
// replaced one by one, or not at all if an image is at fault.
Result<ImageFiles> writeImages(const ImageSet& set, const ImageForm& form,
                               const std::string& prefix, const Progress& progress = {});

}  // namespace lockstep::pictures
