// Package kernelstore keeps compiled kernels: in the process, for those who use them, and on disk.
package kernelstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Folder keeps what programs were compiled to in files, one for each key. Files are written under another name and renamed, so
// that each is whole or absent; one that is not what it says is ignored and replaced. What writers have left behind that ended
// while they wrote is removed when it is an hour old. nil keeps nothing. It is safe for concurrent use, also by several processes.
type Folder struct{ dir, magic string }

const (
	// mostBinary bounds what is read and written.
	mostBinary = 64 << 20
	unfinished = ".part" // of files that are being written
	// stale is how old an unfinished file is whose writer has ended.
	stale = time.Hour
)

// OpenFolder returns the folder that an option names: a path, "off" for none, or the folder carve/name of the user's caches
// for "". There, where no folder can be made, nothing is kept.
func OpenFolder(option, name string) (*Folder, error) {
	dir := option
	switch option {
	case "off":
		return nil, nil
	case "":
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, nil
		}
		dir = filepath.Join(user, "carve", name)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		if option == "" {
			return nil, nil
		}
		return nil, err
	}
	f := &Folder{dir, magicOf(name)}
	f.sweep(time.Now())
	return f, nil
}

// sweep removes unfinished files that nobody writes any more, whose writers ended before they were done.
func (f *Folder) sweep(now time.Time) {
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return
	}
	for _, d := range list {
		if !strings.HasSuffix(d.Name(), unfinished) {
			continue
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > stale {
			_ = os.Remove(filepath.Join(f.dir, d.Name())) // where another process was first, or it cannot be, it is left
		}
	}
}

// magicOf is what files begin with.
func magicOf(name string) string { return "carve " + name + " 1\n" }

func (f *Folder) path(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(f.dir, hex.EncodeToString(sum[:])+".bin")
}

// Get returns what was kept under a key, nil where there is nothing. The key says everything that the content depends on.
func (f *Folder) Get(key string) []byte {
	if f == nil {
		return nil
	}
	info, err := os.Lstat(f.path(key))
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostBinary+1<<10 {
		return nil
	}
	data, err := os.ReadFile(f.path(key))
	if err != nil {
		return nil
	}
	return decode(f.magic, data)
}

// decode returns the content of a file, nil where it is not whole.
func decode(magic string, data []byte) []byte {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(rest) <= sha256.Size {
		return nil
	}
	content := rest[sha256.Size:]
	if sum := sha256.Sum256(content); !bytes.Equal(sum[:], rest[:sha256.Size]) {
		return nil
	}
	return content
}

func encode(magic string, content []byte) []byte {
	sum := sha256.Sum256(content)
	return append(append([]byte(magic), sum[:]...), content...)
}

// Put keeps content under a key. Where that fails it is made again the next time.
func (f *Folder) Put(key string, content []byte) {
	if f == nil || len(content) == 0 || len(content) > mostBinary {
		return
	}
	file, err := os.CreateTemp(f.dir, "*"+unfinished)
	if err != nil {
		return
	}
	_, err = file.Write(encode(f.magic, content))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), f.path(key))
	}
	if err != nil {
		_ = os.Remove(file.Name()) // nobody else knows its name
	}
}
