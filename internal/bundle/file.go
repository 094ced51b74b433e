// Package bundle reads and writes files that hold a compiled model: sections of text and data that are laid out to be mapped. What
// is in the sections the package knows of graphs alone ([Graph], [ReadGraph]); who writes them gives the others their meaning.
//
// # File
//
// All numbers are little-endian. A header of 32 bytes is followed by a table with 40 bytes for each section:
//
//	header   magic "CARVEBDL", version, number of sections (4 bytes each), bytes of the file, checksum of the rest and the table
//	section  kind, number (4 bytes each), offset, bytes, checksum, zero
//
// Sections come in the order of the table, do not overlap, and begin at multiples of [Align]; what is between them is zero. The
// checksum is that of graph.Checksum: CRC-32 and CRC-32C side by side, which finds accidents and no intent: whoever reads a
// section trusts nothing in it.
package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/carve-dev/carve/internal/offheap"
)

// Align is what the offsets of sections are multiples of: pages of most processors.
const Align = 4096

const (
	magic      = "CARVEBDL"
	version    = 1
	headerSize = 32
	entrySize  = 40
	most       = 1 << 16 // sections
)

// ErrFormat is wrapped by errors about files that are no bundles, or are not whole.
var ErrFormat = errors.New("no sound bundle")

// FormatError tells where in a file an error is, and what was expected there. It wraps ErrFormat.
type FormatError struct {
	Offset   int64
	Expected string
	Found    string
}

// Error names offset, what was expected and what was found.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%v: at byte %d: expected %s, found %s", ErrFormat, e.Offset, e.Expected, e.Found)
}

// Unwrap returns ErrFormat.
func (e *FormatError) Unwrap() error { return ErrFormat }

func fault(offset int64, expected, format string, args ...any) error {
	return &FormatError{Offset: offset, Expected: expected, Found: fmt.Sprintf(format, args...)}
}

// ID names a section: what it is, and which of several.
type ID struct{ Kind, Number uint32 }

// section is an entry of the table.
type section struct {
	ID
	offset, bytes int64
	sum           uint64
}

// Is reports whether a file begins like a bundle.
func Is(r io.ReaderAt) bool {
	var b [len(magic)]byte
	_, err := r.ReadAt(b[:], 0)
	return err == nil && string(b[:]) == magic
}

// IsFile is Is of the file at a path. What is no regular file is not opened: a pipe would wait for its writer.
func IsFile(path string) bool {
	f, _, err := offheap.OpenRegular(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return Is(f)
}

// File is a bundle that is open: its sections, mapped. It is safe for concurrent use; Close must not run at the same time as any
// other use.
type File struct {
	mapping *offheap.Mapping
	data    []byte
	list    []section
}

// Open maps a bundle, and checks its header and table: that all sections lie in it. It reads no section. Errors are a
// *FormatError, an *offheap.Error, or those of offheap.OpenRegular.
func Open(path string) (*File, error) {
	f, info, err := offheap.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := offheap.MapFile(f, 0, info.Size())
	if err != nil {
		return nil, err
	}
	x, err := Parse(m.Bytes())
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	x.mapping = m
	return x, nil
}

// Parse is Open of bytes in memory, which must not change.
func Parse(data []byte) (*File, error) {
	size := int64(len(data))
	if size < headerSize {
		return nil, fault(0, fmt.Sprintf("a header of %d bytes", headerSize), "%d bytes", size)
	}
	if string(data[:8]) != magic {
		return nil, fault(0, magic, "%q", data[:8])
	}
	le := binary.LittleEndian
	if v := le.Uint32(data[8:]); v != version {
		return nil, fault(8, fmt.Sprintf("version %d", version), "%d", v)
	}
	n := int64(le.Uint32(data[12:]))
	if n > most || headerSize+n*entrySize > size {
		return nil, fault(12, "a table that the file holds", "%d sections in %d bytes", n, size)
	}
	if s := le.Uint64(data[16:]); s != uint64(size) {
		return nil, fault(16, fmt.Sprintf("%d bytes, as the file has", size), "%d", s)
	}
	table := data[headerSize : headerSize+n*entrySize]
	if want, sum := le.Uint64(data[24:]), headerSum(data[:24], table); want != sum {
		return nil, fault(24, fmt.Sprintf("checksum %016x", want), "%016x", sum)
	}
	f := &File{data: data}
	end := headerSize + n*entrySize
	for i := range n {
		b, at := table[i*entrySize:], headerSize+i*entrySize
		off, bytes := le.Uint64(b[8:]), le.Uint64(b[16:])
		if off > math.MaxInt64 || bytes > math.MaxInt64 || off%Align != 0 || int64(off) < end || int64(off) > size || int64(bytes) > size-int64(off) {
			return nil, fault(at+8, fmt.Sprintf("a section between byte %d and %d", end, size), "%d bytes at %d", bytes, off)
		}
		s := section{ID: ID{le.Uint32(b), le.Uint32(b[4:])}, offset: int64(off), bytes: int64(bytes), sum: le.Uint64(b[24:])}
		f.list = append(f.list, s)
		end = s.offset + s.bytes
	}
	return f, nil
}

func headerSum(header, table []byte) uint64 {
	return uint64(crc32.Update(crc32.ChecksumIEEE(header), crc32.IEEETable, table))<<32 |
		uint64(crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, table))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint64 {
	return uint64(crc32.ChecksumIEEE(b))<<32 | uint64(crc32.Checksum(b, castagnoli))
}

// Section returns a section, nil where the bundle has none of that name. Its checksum is verified where check is set, which
// reads all of it. It must not be changed, and ends with Close.
func (f *File) Section(id ID, check bool) ([]byte, error) {
	for _, s := range f.list {
		if s.ID != id {
			continue
		}
		b := f.data[s.offset : s.offset+s.bytes : s.offset+s.bytes]
		if check {
			if sum := checksum(b); sum != s.sum {
				return nil, fault(s.offset, fmt.Sprintf("%d bytes with checksum %016x", s.bytes, s.sum), "%016x", sum)
			}
		}
		return b, nil
	}
	return nil, nil
}

// Offset returns where a section begins, for errors about what is in it; -1 where the bundle has none of that name.
func (f *File) Offset(id ID) int64 {
	for _, s := range f.list {
		if s.ID == id {
			return s.offset
		}
	}
	return -1
}

// Verify reads all sections and compares their checksums.
func (f *File) Verify() error {
	for _, s := range f.list {
		if _, err := f.Section(s.ID, true); err != nil {
			return err
		}
	}
	return nil
}

// Size returns the bytes of the file.
func (f *File) Size() int64 { return int64(len(f.data)) }

// Close unmaps the file. Closing again does nothing.
func (f *File) Close() error {
	f.data = nil
	return f.mapping.Close()
}
