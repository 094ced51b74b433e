package bundle

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/pending"
)

// Part is a section to be written: what Write writes. It is called once, and may write any number of bytes.
type Part struct {
	ID
	Write func(w io.Writer) error
}

// Create writes a bundle in the place of whatever is at path: under another name first, so that there is the old file or the new
// one at every moment. After an error the old one is left. What is no regular file, such as a device, is not replaced.
func Create(path string, parts []Part) (err error) {
	if len(parts) > most {
		return fmt.Errorf("a bundle of %d sections, of at most %d", len(parts), most)
	}
	if info, err := os.Stat(path); err == nil { // by links too: devices such as /dev/stdout are behind them
		if err := offheap.Regular(info); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	pending.Sweep(path)
	f, err := pending.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	size, err := write(f, parts)
	if err != nil {
		return err
	}
	if err = f.Truncate(size); err != nil { // nothing is written of an empty section at the end
		return err
	}
	if err = f.Sync(); err != nil { // so that the name never stands for less than the whole
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return pending.Place(f, path)
}

// write writes sections, then the header and the table in front of them. It returns the bytes of the whole.
func write(f io.WriterAt, parts []Part) (int64, error) {
	le := binary.LittleEndian
	head := make([]byte, headerSize+entrySize*len(parts))
	at := int64(len(head))
	for i, p := range parts {
		at = (at + Align - 1) / Align * Align
		w := &summed{w: io.NewOffsetWriter(f, at)}
		if err := p.Write(w); err != nil {
			return 0, err
		}
		b := head[headerSize+i*entrySize:]
		le.PutUint32(b, p.Kind)
		le.PutUint32(b[4:], p.Number)
		le.PutUint64(b[8:], uint64(at))
		le.PutUint64(b[16:], uint64(w.n))
		le.PutUint64(b[24:], uint64(w.ieee)<<32|uint64(w.castagnoli))
		at += w.n
	}
	copy(head, magic)
	le.PutUint32(head[8:], version)
	le.PutUint32(head[12:], uint32(len(parts)))
	le.PutUint64(head[16:], uint64(at))
	le.PutUint64(head[24:], headerSum(head[:24], head[headerSize:]))
	_, err := f.WriteAt(head, 0)
	return at, err
}

// summed counts and sums what is written.
type summed struct {
	w                io.Writer
	n                int64
	ieee, castagnoli uint32
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.n += int64(n)
	s.ieee, s.castagnoli = crc32.Update(s.ieee, crc32.IEEETable, b[:n]), crc32.Update(s.castagnoli, castagnoli, b[:n])
	return n, err
}
