package mxnet

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/internal/files"
)

// finder finds and gives out the bytes of the system's files, or of a file system's.
type finder struct {
	files.Set
	fsys fs.FS // nil: the system's files
}

const symbolSuffix = "-symbol.json"

// IsModel reports whether a path names a model of MXNet: a JSON file, parameters, or the prefix of a symbol that is there.
func IsModel(file string) bool { return IsName(file) || isFile(file+symbolSuffix) && !isFile(file) }

// IsName reports whether a name is that of a symbol or of parameters.
func IsName(name string) bool {
	return strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".params")
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// pair finds the symbol and the parameters that a path means; params is "" where there are none.
func (f *finder) pair(file string, o *Options) (symbol, params string, err error) {
	if prefix, ok := strings.CutSuffix(file, ".params"); ok {
		if i := strings.LastIndexByte(prefix, '-'); i > 0 && isEpoch(prefix[i+1:]) {
			prefix = prefix[:i]
		}
		if o.Params != "" {
			return prefix + symbolSuffix, o.Params, nil
		}
		return prefix + symbolSuffix, file, nil
	}
	prefix, ok := strings.CutSuffix(file, symbolSuffix)
	symbol = file
	if !ok {
		if prefix, ok = strings.CutSuffix(file, ".json"); !ok {
			symbol, prefix = file+symbolSuffix, file
		}
	}
	if o.Params != "" {
		return symbol, o.Params, nil
	}
	params, err = f.newest(prefix, o.Epoch)
	return symbol, params, err
}

// isEpoch reports four digits or more.
func isEpoch(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) >= 4 && len(s) < 10
}

// newest returns the parameters of a prefix: PREFIX-NNNN.params of the largest number, or of that epoch, else PREFIX.params or
// PREFIX.npz. It is "" where there are none.
func (f *finder) newest(prefix string, epoch *int) (string, error) {
	dir, base := path.Split(prefix)
	if f.fsys == nil {
		dir, base = filepath.Split(prefix)
	}
	entries, err := f.list(dir)
	if err != nil {
		return "", err
	}
	best, found := -1, ""
	for _, name := range entries {
		middle, ok := strings.CutPrefix(name, base)
		switch {
		case !ok:
		case middle == ".params" || middle == ".npz" && found == "":
			if best < 0 && epoch == nil {
				found = name
			}
		default:
			number, ok1 := strings.CutPrefix(middle, "-")
			number, ok2 := strings.CutSuffix(number, ".params")
			if !ok1 || !ok2 || !isEpoch(number) {
				continue
			}
			n, _ := strconv.Atoi(number)
			if n > best && (epoch == nil || *epoch == n) {
				best, found = n, name
			}
		}
	}
	if epoch != nil && found == "" {
		return "", fmt.Errorf("%w: no parameters of epoch %d", fs.ErrNotExist, *epoch)
	}
	if found == "" {
		return "", nil
	}
	return dir + found, nil
}

// list returns the names of a folder's files.
func (f *finder) list(dir string) ([]string, error) {
	var entries []fs.DirEntry
	var err error
	switch {
	case f.fsys == nil && dir == "":
		entries, err = os.ReadDir(".")
	case f.fsys == nil:
		entries, err = os.ReadDir(dir)
	default:
		entries, err = fs.ReadDir(f.fsys, path.Clean(dir))
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out, err
}

// read takes a file.
func (f *finder) read(name string) ([]byte, error) {
	if f.fsys != nil {
		return f.FS(f.fsys, name)
	}
	return f.Path(name)
}
