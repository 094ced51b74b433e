package offheap

import (
	"io"
	"io/fs"
	"os"
)

// Regular refuses what is no regular file: a FIFO blocks whoever opens it, a device has no size. The error is ErrNotRegular.
func Regular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return ErrNotRegular
	}
	return nil
}

// OpenRegular opens a regular file to read it. It looks before it opens, and does not wait where something else took the file's
// place in between. Errors are a *fs.PathError, which wraps ErrNotRegular or the system's.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	return openRegular(path, os.Stat, os.OpenFile)
}

// OpenRegularIn is OpenRegular of a file below root, which links do not leave.
func OpenRegularIn(root *os.Root, path string) (*os.File, fs.FileInfo, error) {
	return openRegular(path, root.Stat, root.OpenFile)
}

func openRegular(path string, stat func(string) (fs.FileInfo, error), open func(string, int, fs.FileMode) (*os.File, error)) (*os.File, fs.FileInfo, error) {
	info, err := stat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := Regular(info); err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f, err := open(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = Regular(info)
	}
	if err != nil {
		_ = f.Close() // was not read
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, info, nil
}

// ReadRegular returns the content of a regular file of at most most bytes. Errors are a *fs.PathError, which wraps ErrNotRegular,
// ErrSize or the system's.
func ReadRegular(path string, most int64) ([]byte, error) {
	f, info, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrSize}
	}
	return io.ReadAll(io.LimitReader(f, most))
}
