package zootest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrAbsent is wrapped by errors about folders that are not on this machine; tests skip on it.
var ErrAbsent = errors.New("not on this machine")

// repositoryRoot returns the root of the repository: the folder with go.mod above the current one.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("go.mod above the current folder: %w", fs.ErrNotExist)
		}
		dir = up
	}
}

// Shared returns the path of a file or folder in ../shared, counted from the root of the repository, such as "models".
// The error wraps ErrAbsent where it does not exist.
func Shared(name string) (string, error) {
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(root), "shared", filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s: %w", path, ErrAbsent)
	}
	return path, nil
}

// Names returns the models of the zoo, sorted. The error wraps ErrAbsent where there is no zoo.
func Names() ([]string, error) {
	dir, err := Shared("models")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+manifestSuffix))
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), manifestSuffix)
	}
	slices.Sort(files)
	return files, nil
}

const manifestSuffix = ".weights.txt"
