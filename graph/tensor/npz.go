package tensor

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe"
)

// Named is one array of an npz archive.
type Named struct {
	Name   string // without the suffix .npy
	Tensor *Tensor
}

// NPZOptions bounds what is read from an npz archive. nil means the defaults.
type NPZOptions struct {
	MaxBytes int // of all arrays together, unpacked, with 16 more for each string; default 4 GiB
}

// maxDeflate is the most that one byte of a deflate stream can unpack to.
const maxDeflate = 1032

// ReadNPZ reads all arrays of an npz archive of the given size in bytes, stored or deflated, in the order of the
// archive. An entry that claims more than its compressed bytes can hold is refused before anything is allocated.
// Errors name the entry and wrap ErrSyntax, ErrTruncated, ErrTooLarge or ErrUnsupported.
func ReadNPZ(r io.ReaderAt, size int64, o *NPZOptions) ([]Named, error) {
	limit := uint64(4 << 30)
	if o != nil && o.MaxBytes > 0 {
		limit = uint64(o.MaxBytes)
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: npz: %w", ErrSyntax, err)
	}
	var out []Named
	seen := map[string]bool{}
	for _, f := range z.File {
		name, isArray := strings.CutSuffix(f.Name, ".npy")
		if !isArray {
			return nil, fmt.Errorf("%w: npz entry %.80q is no npy", ErrUnsupported, f.Name)
		}
		if seen[name] {
			return nil, fmt.Errorf("%w: npz entry %.80q twice", ErrSyntax, f.Name)
		}
		seen[name] = true
		if f.Method != zip.Store && f.Method != zip.Deflate {
			return nil, fmt.Errorf("%w: npz entry %.80q has compression method %d", ErrUnsupported, f.Name, f.Method)
		}
		n := f.UncompressedSize64
		if f.CompressedSize64 > uint64(size) || n > f.CompressedSize64*maxDeflate+1024 || f.Method == zip.Store && n != f.CompressedSize64 {
			return nil, fmt.Errorf("%w: npz entry %.80q claims %d bytes", ErrSyntax, f.Name, n)
		}
		if n > limit {
			return nil, fmt.Errorf("%w: npz entry %.80q of %d bytes, %d are left of the limit", ErrTooLarge, f.Name, n, limit)
		}
		limit -= n
		t, err := readEntry(f, limit)
		if err != nil {
			return nil, fmt.Errorf("npz entry %.80q: %w", f.Name, err)
		}
		limit -= uint64(len(t.Strings)) * stringBytes
		out = append(out, Named{name, t})
	}
	return out, nil
}

// stringBytes is what each string takes beside its bytes.
const stringBytes = uint64(unsafe.Sizeof(""))

// readEntry reads an array whose strings take no more than most beside their bytes.
func readEntry(f *zip.File, most uint64) (*Tensor, error) {
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	defer r.Close()
	lr := io.LimitReader(r, int64(f.UncompressedSize64))
	t, err := readNPY(lr, most/stringBytes)
	if err == nil { // reading to the end checks the CRC
		var rest int64
		if rest, err = io.Copy(io.Discard, r); err == nil && rest > 0 {
			err = fmt.Errorf("%w: %d bytes after the elements of an npy file", ErrSyntax, rest)
		}
	}
	var corrupt flate.CorruptInputError
	switch {
	case err == nil:
		return t, nil
	case errors.As(err, &corrupt), errors.Is(err, zip.ErrChecksum), errors.Is(err, zip.ErrFormat):
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: %w", ErrTruncated, err)
	}
	return nil, err
}

// ReadNPZFile reads an npz archive by its path. Only regular files are read.
func ReadNPZFile(path string, o *NPZOptions) ([]Named, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a, err := ReadNPZ(f, size, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// Compression is how WriteNPZ stores the arrays.
type Compression uint8

// The two forms that NumPy writes (savez and savez_compressed).
const (
	Stored Compression = iota
	Deflated
)

// WriteNPZ writes the arrays as an npz archive, in order. What npy cannot hold gives ErrUnsupported, a name twice
// ErrSyntax.
func WriteNPZ(w io.Writer, arrays []Named, c Compression) error {
	z := zip.NewWriter(w)
	seen := map[string]bool{}
	for _, a := range arrays {
		if seen[a.Name] {
			return fmt.Errorf("%w: npz entry %.80q twice", ErrSyntax, a.Name)
		}
		seen[a.Name] = true
		h := &zip.FileHeader{Name: a.Name + ".npy", Method: zip.Store}
		if c == Deflated {
			h.Method = zip.Deflate
		}
		e, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if err := WriteNPY(e, a.Tensor); err != nil {
			return fmt.Errorf("npz entry %.80q: %w", a.Name, err)
		}
	}
	return z.Close()
}
