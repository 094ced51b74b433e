package onnx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/files"
	"github.com/carve-dev/carve/internal/offheap"
)

// dataFiles gives out the bytes of a model file and of the external data beside it, each file once.
type dataFiles struct {
	files.Set
	dir   string // the model's folder, which external data must not leave
	fsys  fs.FS  // nil: the system's files
	none  bool   // there is no place for external data
	root  *os.Root
	taken map[string][]byte // by cleaned paths
}

// release closes what is needed while loading only.
func (d *dataFiles) release() {
	if d.root != nil {
		_ = d.root.Close() // only ever read
		d.root = nil
	}
}

// read returns the bytes of a tensor outside the model file.
func (d *dataFiles) read(x tensor.External) ([]byte, error) {
	// A file that is named in many ways is taken once: a short model could ask for any number of copies otherwise.
	name := path.Clean(x.Location)
	b, ok := d.taken[name]
	if !ok {
		var err error
		if b, err = d.open(x.Location); err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrExternalData, short(x.Location), err)
		}
		if d.taken == nil {
			d.taken = map[string][]byte{}
		}
		d.taken[name] = b
	}
	if x.Offset > int64(len(b)) || int64(x.Bytes) > int64(len(b))-x.Offset {
		return nil, fmt.Errorf("%w: %q has %d bytes, the tensor's are [%d, +%d): %w", ErrExternalData, short(x.Location),
			len(b), x.Offset, x.Bytes, ErrTruncated)
	}
	return b[x.Offset : x.Offset+int64(x.Bytes) : x.Offset+int64(x.Bytes)], nil
}

var errOutside = errors.New("path leaves the model's folder")

func (d *dataFiles) open(location string) ([]byte, error) {
	local := filepath.FromSlash(location)
	if d.none {
		return nil, fmt.Errorf("%w: no place for external data is given", ErrUnsupported)
	}
	if location == "" || !filepath.IsLocal(local) || strings.Contains(location, `\`) || strings.ContainsRune(location, 0) {
		return nil, errOutside
	}
	if d.fsys != nil {
		return d.readFS(path.Join(d.dir, path.Clean(location)))
	}
	if d.root == nil {
		root, err := os.OpenRoot(d.dir)
		if err != nil {
			return nil, err
		}
		d.root = root
	}
	return d.In(d.root, filepath.Clean(local)) // follows links, but not out of the folder
}

// readFS reads a file of d.fsys. Links are refused on the way, where the file system can tell.
func (d *dataFiles) readFS(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err := fs.Lstat(d.fsys, name[:i])
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%q: %w: link", name[:i], ErrNotRegular)
		}
		if i == len(name) {
			if err := offheap.Regular(info); err != nil {
				return nil, err
			}
		}
	}
	return d.FS(d.fsys, name)
}
