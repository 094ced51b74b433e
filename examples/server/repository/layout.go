package repository

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// MaxFiles bounds the files of one version, and of a call that carries a model's.
const MaxFiles = 10000

// folder is what lies under one model's name.
type folder struct {
	name     string
	dir      string // "" for a file that is a model
	config   string // path of config.pbtxt, "" where there is none
	versions []found
	stamp    string // of the files beside the versions
	fault    error  // why it cannot be read, which is no other model's
}

// found is a version's file, and the sizes and times of all files that belong to it.
type found struct {
	number int64
	file   string // "" where none is a model
	stamp  string
}

// scan lists the models under the root.
func (r *Repository) scan() (map[string]*folder, error) {
	out := map[string]*folder{}
	if r.o.Single != "" {
		f, err := readFolder(r.fsys, r.o.Single, ".")
		if err == nil {
			out[r.o.Single] = f
		}
		return out, err
	}
	entries, err := fs.ReadDir(r.fsys, ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		info, err := fs.Stat(r.fsys, name) // follows links, as volumes of Kubernetes have them
		switch {
		case err != nil:
			continue // gone, or half there
		case info.IsDir():
			f, err := readFolder(r.fsys, name, name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				f = &folder{name: name, dir: name, fault: err, stamp: err.Error()}
			}
			if f.fault != nil || f.config != "" || len(f.versions) > 0 {
				out[name] = f
			}
		default:
			if stem, ok := stem(name); ok && out[stem] == nil {
				out[stem] = &folder{name: stem, versions: []found{{number: 1, file: name, stamp: stampOf(name, info)}}}
			}
		}
	}
	return out, nil
}

// find reads the folder of one model; nil where there is none.
func (r *Repository) find(name string) (*folder, error) {
	all, err := r.scan()
	if err != nil {
		return nil, err
	}
	return all[name], nil
}

// suffixes are those of files that are models: of ONNX, of carve's bundles, and of MXNet's symbols.
var suffixes = []string{".onnx", ".carve", "-symbol.json"}

func stem(file string) (string, bool) {
	for _, s := range suffixes {
		if stem, ok := strings.CutSuffix(file, s); ok && stem != "" {
			return stem, true
		}
	}
	return "", false
}

// readFolder reads a model's folder: versions, or a model's file alone, which is version 1.
func readFolder(fsys fs.FS, name, dir string) (*folder, error) {
	f := &folder{name: name, dir: dir}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	h := fnv.New128a()
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		info, err := fs.Stat(fsys, at)
		if err != nil {
			continue
		}
		number, numeric := strconv.ParseInt(e.Name(), 10, 64)
		switch {
		case info.IsDir() && numeric == nil && number > 0 && strconv.FormatInt(number, 10) == e.Name():
			v := found{number: number}
			if v.file, v.stamp, err = readVersion(fsys, at); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			f.versions = append(f.versions, v)
		case !info.IsDir():
			if e.Name() == "config.pbtxt" {
				f.config = at
			}
			fmt.Fprintln(h, stampOf(at, info))
		}
	}
	f.stamp = fmt.Sprintf("%x", h.Sum(nil))
	slices.SortFunc(f.versions, func(a, b found) int { return int(min(max(a.number-b.number, -1), 1)) })
	if len(f.versions) == 0 {
		if file := modelFile(entries, ""); file != "" {
			f.versions = []found{{number: 1, file: path.Join(dir, file), stamp: f.stamp}}
		}
	}
	return f, nil
}

// readVersion returns the model's file of a version and the stamp of all its files.
func readVersion(fsys fs.FS, dir string) (file, stamp string, err error) {
	h, n := fnv.New128a(), 0
	err = fs.WalkDir(fsys, dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if n++; n > MaxFiles {
			return fmt.Errorf("%s has more than %d files", dir, MaxFiles)
		}
		info, err := fs.Stat(fsys, at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone, or a link to what is not there
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(h, stampOf(at, info))
		return nil
	})
	if err != nil {
		return "", "", err
	}
	entries, err := fs.ReadDir(fsys, dir)
	if name := modelFile(entries, ""); name != "" {
		file = path.Join(dir, name)
	}
	return file, fmt.Sprintf("%x", h.Sum(nil)), err
}

// modelFile returns which of the files of a folder is the model: the one that is named, or model.onnx and its like, or the only one
// that has a model's suffix.
func modelFile(entries []fs.DirEntry, named string) string {
	var candidates []string
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		stem, ok := stem(e.Name())
		if e.Name() == named || named == "" && ok && stem == "model" {
			return e.Name()
		}
		if ok {
			candidates = append(candidates, e.Name())
		}
	}
	if named == "" && len(candidates) == 1 {
		return candidates[0]
	}
	return ""
}

func stampOf(name string, info fs.FileInfo) string {
	return fmt.Sprintf("%s %d %d", name, info.Size(), info.ModTime().UnixNano())
}
