// Package pending makes files that take the place of others when they are complete: they are written beside these under hidden names. It
// imports nothing of carve.
package pending

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	suffix = ".carve-part"
	// stale is how old an unfinished file is whose writer has ended.
	stale = time.Hour
	// mostName bounds what the name of an unfinished file has of the finished one's: with the rest it fits every file system.
	mostName = 200
)

// Create makes an empty file in the folder of path, which the caller writes, closes, and renames to path; where that fails it removes it.
// Errors are *fs.PathErrors that name path.
func Create(path string) (*os.File, error) {
	name := filepath.Base(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+name[:min(len(name), mostName)]+".*"+suffix)
	if fault := (*fs.PathError)(nil); errors.As(err, &fault) {
		err = &fs.PathError{Op: "create", Path: path, Err: fault.Err}
	}
	return f, err
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
