// Package pending makes files that take the place of others when they are complete: they are written beside these under hidden names. It
// imports nothing of carve.
package pending

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	suffix = ".carve-part"
	// stale is how old an unfinished file is whose writer has ended.
	stale = time.Hour
	// mostName bounds what the name of an unfinished file has of the finished one's: with the rest it fits every file system.
	mostName = 200
	// tries is how many names Create tries that others might have taken.
	tries = 100
)

// Create makes an empty file in the folder of path, which the caller writes, closes, and gives to Place; where that fails it removes it.
// Who may read it is what path's permissions say where there is a file, and else the process's umask. Errors are *fs.PathErrors that
// name path.
func Create(path string) (*os.File, error) {
	name := filepath.Base(path)
	prefix := filepath.Join(filepath.Dir(path), "."+name[:min(len(name), mostName)]+".")
	var f *os.File
	var err error
	for range tries {
		f, err = os.OpenFile(prefix+strconv.FormatUint(uint64(rand.Uint32()), 10)+suffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err == nil {
		if info, fault := os.Lstat(path); fault == nil && info.Mode().IsRegular() {
			err = f.Chmod(info.Mode().Perm())
		}
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
	if err != nil {
		return nil, named("create", path, err)
	}
	return f, nil
}

// Place gives a finished file its name, in the place of what had it. The error is an *fs.PathError that names path.
func Place(f *os.File, path string) error {
	err := os.Rename(f.Name(), path)
	if err == nil {
		return nil
	}
	if info, fault := os.Lstat(path); fault == nil && info.IsDir() {
		err = errFolder
	}
	return named("replace", path, err)
}

// errFolder is what a rename to a folder's name comes to, which systems call by several names.
var errFolder = errors.New("it is a folder")

// named returns a cause as an error about path.
func named(op, path string, err error) error {
	if fault := (*fs.PathError)(nil); errors.As(err, &fault) {
		err = fault.Err
	}
	if fault := (*os.LinkError)(nil); errors.As(err, &fault) {
		err = fault.Err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// Sweep removes from the folder of path what Create made there for writers that were killed while they wrote, an hour after they last
// did. It lists the folder. What cannot be listed or removed is left.
func Sweep(path string) {
	dir := filepath.Dir(path)
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, d := range list {
		if !strings.HasPrefix(d.Name(), ".") || !strings.HasSuffix(d.Name(), suffix) {
			continue
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > stale {
			_ = os.Remove(filepath.Join(dir, d.Name())) // another writer may have been first
		}
	}
}
