// Package measurements keeps measured times, and notes on what was chosen by them, in a folder: a small text file for each, named
// after what was measured.
//
// Files are written under another name and renamed, so that each is whole or absent at every moment, whoever reads or writes,
// in however many processes, and whenever one of them ends. Of two that put the same key, one wins; what is added is the first
// one's for good. What is not whole, of
// another version, or not what its name says is ignored, and told to the caller; the next Put replaces it.
//
// The package imports nothing of carve.
package measurements

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	suffix   = ".time"
	unfinish = ".part" // of files that are being written
	// mostBytes bounds a file that is read.
	mostBytes = 1 << 20
	// stale is how old an unfinished file is whose writer has ended.
	stale = time.Hour
)

// Cache is a folder of measurements. It is safe for concurrent use, by several processes too.
type Cache struct {
	dir  string
	warn func(path string, err error)
}

// Open returns the cache in a folder, which is made where it is missing. warn, where it is not nil, is told of files that are
// ignored, possibly from several goroutines. What writers have left behind that ended while they wrote is removed when it is an
// hour old.
func Open(dir string, warn func(path string, err error)) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if warn == nil {
		warn = func(string, error) {}
	}
	c := &Cache{dir: dir, warn: warn}
	return c, c.sweep(time.Now())
}

// sweep removes unfinished files that nobody writes any more.
func (c *Cache) sweep(now time.Time) error {
	return c.walk(func(path string, d fs.DirEntry) {
		if !strings.HasSuffix(path, unfinish) {
			return
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > stale {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.warn(path, err)
			}
		}
	})
}

// walk calls f for every file in the folders of the cache, in lexical order. Folders that another process removes are no error, and
// warn is told of those that cannot be listed.
func (c *Cache) walk(f func(path string, d fs.DirEntry)) error {
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		at := filepath.Join(c.dir, folder.Name())
		files, err := os.ReadDir(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			c.warn(at, err)
			continue
		}
		for _, d := range files {
			f(filepath.Join(at, d.Name()), d)
		}
	}
	return nil
}

// Get returns the measurement of a key. ok is false where there is none, or none that can be read.
func (c *Cache) Get(k Key) (e Entry, ok bool) {
	ok = c.get(k.name(), func(b []byte) (err error) {
		e, err = decode(b, &k)
		return err
	})
	return e, ok
}

// get reads a file of the cache. It reports false where there is none, or none that can be read, of which warn is told.
func (c *Cache) get(name string, decode func(b []byte) error) bool {
	path := filepath.Join(c.dir, filepath.FromSlash(name))
	b, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		err = decode(b)
	}
	if err != nil {
		c.warn(path, err)
	}
	return err == nil
}

// read returns the content of a regular file of bounded size. Others are not opened: a pipe would wait for its writer.
func read(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostBytes {
		return nil, fmt.Errorf("%w: %v of %d bytes", ErrEntry, info.Mode().Type(), info.Size())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostBytes))
}

// Put keeps a measurement in the place of an older one. The error wraps ErrEntry where the entry is none: its time and its
// number of runs are positive, and all is finite.
func (c *Cache) Put(k Key, e Entry) error {
	b, err := checked(&k, e)
	if err != nil {
		return err
	}
	return c.write(k.name(), b, func(part, path string) error { return os.Rename(part, path) })
}

// Add keeps a measurement where there is none of the key yet, and returns the one that is kept: of all processes that measure
// the same thing the first one's. Errors are those of Put.
func (c *Cache) Add(k Key, e Entry) (Entry, error) {
	b, err := checked(&k, e)
	if err != nil {
		return Entry{}, err
	}
	err = c.write(k.name(), b, func(part, path string) error {
		return first(part, path, func() bool {
			kept, ok := c.Get(k)
			if ok {
				e = kept
			}
			return ok
		})
	})
	return e, err
}

// checked returns the content of an entry's file.
func checked(k *Key, e Entry) ([]byte, error) {
	b := encode(k, e)
	if len(b) > mostBytes {
		return nil, fmt.Errorf("%w: a key of %d bytes", ErrEntry, len(b))
	}
	_, err := decode(b, k)
	return b, err
}

// first gives a finished file its name where no other has it that can be read, which known tells. Where the file system has no
// hard links, one of two that come at the same moment may replace the other.
func first(part, path string, known func() bool) error {
	if known() {
		return nil
	}
	if err := os.Link(part, path); err == nil || errors.Is(err, fs.ErrExist) && known() {
		return nil
	}
	return os.Rename(part, path)
}

// write makes a file of the cache: place gives the finished one its name. What is left of the unfinished one is removed.
func (c *Cache) write(name string, b []byte, place func(part, path string) error) (err error) {
	path := filepath.Join(c.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "*"+unfinish)
	if err != nil {
		return err
	}
	defer func() {
		if e := os.Remove(f.Name()); err == nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}()
	if _, err = f.Write(b); err != nil {
		_ = f.Close()
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return place(f.Name(), path)
}

// Len returns the number of measurements, those that cannot be read included. It lists the folders.
func (c *Cache) Len() (int, error) {
	n := 0
	err := c.walk(func(path string, _ fs.DirEntry) {
		if strings.HasSuffix(path, suffix) {
			n++
		}
	})
	return n, err
}
