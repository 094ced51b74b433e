package mxnet

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// isArchive reports whether bytes begin as a zip archive, an empty one included.
func isArchive(b []byte) bool {
	return len(b) >= 4 && b[0] == 'P' && b[1] == 'K' && (b[2] == 3 && b[3] == 4 || b[2] == 5 && b[3] == 6 || b[2] == 6 && b[3] == 6)
}

// isNPY reports whether bytes begin as an npy file.
func isNPY(b []byte) bool { return len(b) >= 6 && string(b[:6]) == "\x93NUMPY" }

// maxDeflate is the most that one byte of a deflate stream can unpack to.
const maxDeflate = 1032

// parseArchive reads an npz archive. A sparse array is a folder with the entries data, indices, for CSR indptr, shape and
// format; the last has a head that NumPy does not read either, and the others say what it is.
func parseArchive(b []byte, o *ParamsOptions) ([]Array, error) {
	fault := func(name string, err error) error {
		return &Error{Op: "load", Node: name, Offset: -1, Err: err}
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, fault("", fmt.Errorf("%w: npz: %w", ErrSyntax, err))
	}
	limit := uint64(4*len(b) + o.maxDense())
	var out []Array
	folders := map[string]map[string]*tensor.Tensor{}
	var order []string
	seen := map[string]bool{}
	for _, f := range z.File {
		name, isArray := strings.CutSuffix(f.Name, ".npy")
		if !isArray || seen[name] {
			return nil, fault(f.Name, fmt.Errorf("%w: an entry that is no npy or there twice", ErrSyntax))
		}
		seen[name] = true
		folder, part, inFolder := cutLast(name)
		if inFolder && part == "format" {
			continue
		}
		t, err := readEntry(f, uint64(len(b)), &limit)
		if err != nil {
			return nil, fault(f.Name, err)
		}
		if !inFolder || !slices.Contains([]string{"data", "indices", "indptr", "shape"}, part) {
			out = append(out, Array{Name: name, Tensor: t, Offset: -1})
			continue
		}
		if folders[folder] == nil {
			folders[folder] = map[string]*tensor.Tensor{}
			order = append(order, folder)
		}
		folders[folder][part] = t
	}
	dense := o.maxDense()
	for _, name := range order {
		a, err := sparseFolder(name, folders[name], &dense)
		if err != nil {
			return nil, fault(name, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// cutLast cuts at the last slash.
func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// readEntry unpacks an entry, which is refused where it claims more than its bytes can hold.
func readEntry(f *zip.File, size uint64, limit *uint64) (*tensor.Tensor, error) {
	n := f.UncompressedSize64
	switch {
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return nil, fmt.Errorf("%w: compression method %d", ErrUnsupported, f.Method)
	case f.CompressedSize64 > size || n > f.CompressedSize64*maxDeflate+1024 || f.Method == zip.Store && n != f.CompressedSize64:
		return nil, fmt.Errorf("%w: it claims %d bytes", ErrSyntax, n)
	case n > *limit:
		return nil, fmt.Errorf("%w: %d bytes, %d are left of the limit", ErrTooLarge, n, *limit)
	}
	*limit -= n
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, int64(min(n, math.MaxInt64-1))+1)) // to the end, where the sum is checked
	if err != nil {
		cause := ErrSyntax
		if errors.Is(err, io.ErrUnexpectedEOF) {
			cause = ErrTruncated
		}
		return nil, fmt.Errorf("%w: %w", cause, err)
	}
	return tensor.ParseNPY(raw)
}

// sparseFolder makes the dense array of a sparse one's parts.
func sparseFolder(name string, parts map[string]*tensor.Tensor, dense *int) (a Array, err error) {
	a = Array{Name: name, Storage: RowSparse, Offset: -1}
	ints := map[string][]int64{}
	for _, part := range []string{"shape", "indices", "indptr"} {
		t := parts[part]
		if t == nil {
			continue
		}
		ints[part] = make([]int64, t.Len())
		if err := tensor.DecodeInts(ints[part], t); err != nil {
			return a, fmt.Errorf("%w: %s: %w", ErrSyntax, part, err)
		}
	}
	data := parts["data"]
	if data == nil || parts["shape"] == nil || parts["indices"] == nil || len(ints["shape"]) > maxRank {
		return a, fmt.Errorf("%w: parts of a sparse array are missing", ErrSyntax)
	}
	shape := make([]int, len(ints["shape"]))
	for i, d := range ints["shape"] {
		shape[i] = int(d)
	}
	n, err := tensor.NumElements(shape)
	if err != nil || n > *dense || data.DType.Bytes(n) > *dense || data.DType == tensor.String {
		return a, fmt.Errorf("%w: shape %v of a sparse array", ErrTooLarge, shape)
	}
	*dense -= data.DType.Bytes(n)
	if a.Tensor, err = tensor.New(data.DType, shape...); err != nil {
		return a, err
	}
	if parts["indptr"] != nil {
		a.Storage = CSR
		err = fillRows(a.Tensor, data, ints["indptr"], ints["indices"])
	} else {
		err = fillSlices(a.Tensor, data, ints["indices"])
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return a, err
}

// typeOf returns the element type of one of MXNet's type flags.
func typeOf(flag int64) (tensor.DType, bool) {
	if flag < 0 || flag >= int64(len(dtypes)) {
		return tensor.Invalid, false
	}
	return dtypes[flag], true
}
