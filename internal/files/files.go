// Package files gives out the bytes of the files that a model consists of: mapped where they are the system's, read into aligned
// memory where a copy is asked for or a file system of Go holds them. Only regular files are read.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// Set holds the files of one model.
type Set struct {
	// Copy reads files instead of mapping them.
	Copy bool
	// Bytes is the size of all files taken.
	Bytes int64
	// Maps are the files that were mapped.
	Maps Maps
}

// Maps are mapped files, which end together.
type Maps []*offheap.Mapping

// Close unmaps the files; closing again does nothing.
func (m Maps) Close() error {
	var errs []error
	for _, f := range m {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Evict tells the system that the files will not be read soon.
func (m Maps) Evict() error {
	var errs []error
	for _, f := range m {
		errs = append(errs, f.Evict())
	}
	return errors.Join(errs...)
}

// Path takes the file at a path of the system. Errors wrap offheap.ErrNotRegular, tensor.ErrTooLarge, tensor.ErrTruncated or the
// system's, as those of all methods do.
func (s *Set) Path(path string) ([]byte, error) {
	f, info, err := offheap.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	return s.take(f, info)
}

// In takes a file below root, which links do not leave.
func (s *Set) In(root *os.Root, path string) ([]byte, error) {
	f, info, err := offheap.OpenRegularIn(root, path)
	if err != nil {
		return nil, err
	}
	return s.take(f, info)
}

// take maps or reads an open file and closes it.
func (s *Set) take(f *os.File, info fs.FileInfo) ([]byte, error) {
	defer f.Close()
	s.Bytes += info.Size()
	if s.Copy {
		return readAll(f, info.Size())
	}
	m, err := offheap.MapFile(f, 0, info.Size())
	if err != nil {
		return nil, err
	}
	s.Maps = append(s.Maps, m)
	return m.Bytes(), nil
}

// FS reads a file of a file system.
func (s *Set) FS(fsys fs.FS, name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := offheap.Regular(info); err != nil {
		return nil, err
	}
	s.Bytes += info.Size()
	return readAll(f, info.Size())
}

// readAll reads a file of a known size, and no more where it has grown since.
func readAll(r io.Reader, size int64) ([]byte, error) {
	if size > 1<<46 {
		return nil, fmt.Errorf("%w: file of %d bytes", tensor.ErrTooLarge, size)
	}
	t, err := tensor.New(tensor.Uint8, int(size)) // aligned
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(r, t.Data); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: the file is shorter than it was", tensor.ErrTruncated)
		}
		return nil, err
	}
	return t.Data, nil
}
