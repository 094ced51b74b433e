package bundle_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/bundle"
	"github.com/carve-dev/carve/internal/offheap"
)

// The layout of the file, as the package documentation has it.
const (
	header = 32
	entry  = 40
)

// part is a section of n bytes that count up.
func part(kind, number uint32, n int) bundle.Part {
	return bundle.Bytes(bundle.ID{Kind: kind, Number: number}, counting(n))
}

func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + n)
	}
	return b
}

// written returns the path of a bundle of these parts.
func written(parts ...bundle.Part) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "m.carve")
	Expect(bundle.Create(path, parts)).To(Succeed())
	return path
}

// image returns the bytes of a bundle of these parts.
func image(parts ...bundle.Part) []byte {
	GinkgoHelper()
	b, err := os.ReadFile(written(parts...))
	Expect(err).NotTo(HaveOccurred())
	return b
}

// seal puts the checksum of header and table in its place, so that what they say is believed.
func seal(b []byte) []byte {
	table := b[header:]
	if n := int(binary.LittleEndian.Uint32(b[12:])) * entry; n >= 0 && n < len(table) {
		table = table[:n]
	}
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	low := crc32.Update(crc32.Checksum(b[:24], castagnoli), castagnoli, table)
	high := crc32.Update(crc32.ChecksumIEEE(b[:24]), crc32.IEEETable, table)
	binary.LittleEndian.PutUint64(b[24:], uint64(high)<<32|uint64(low))
	return b
}

// beFormatError matches a *FormatError about what is at an offset.
func beFormatError(at int64, expected string) OmegaMatcher {
	return WithTransform(func(err error) string {
		var f *bundle.FormatError
		if !errors.As(err, &f) || !errors.Is(err, bundle.ErrFormat) {
			return fmt.Sprintf("%T: %v", err, err)
		}
		return fmt.Sprintf("%d: %s", f.Offset, f.Expected)
	}, MatchRegexp(fmt.Sprintf("^%d: %s", at, expected)))
}

var _ = Describe("A bundle", func() {
	It("has the sections that were written, at multiples of Align, with zeros between", func() {
		list := []bundle.Part{part(1, 0, 5), part(1, 7, 0), part(2, 0, bundle.Align), part(3, 0, bundle.Align+1), part(4, math.MaxUint32, 1), part(5, 0, 0)}
		path := written(list...)
		Expect(bundle.IsFile(path)).To(BeTrue())
		f, err := bundle.Open(path)
		Expect(err).NotTo(HaveOccurred())
		raw, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Size()).To(BeEquivalentTo(len(raw)))
		Expect(f.Verify()).To(Succeed())
		end := int64(header + len(list)*entry)
		for _, p := range list {
			var want bytes.Buffer
			Expect(p.Write(&want)).To(Succeed())
			for _, check := range []bool{true, false} {
				got, err := f.Section(p.ID, check)
				Expect(err).NotTo(HaveOccurred())
				Expect(got).NotTo(BeNil())
				Expect(bytes.Equal(got, want.Bytes())).To(BeTrue())
				Expect(got).To(HaveCap(len(got)), "nothing behind it can be reached")
			}
			at := f.Offset(p.ID)
			Expect(at % bundle.Align).To(BeZero())
			Expect(at).To(BeNumerically(">=", end))
			Expect(bytes.Count(raw[end:at], []byte{0})).To(BeEquivalentTo(at - end))
			end = at + int64(want.Len())
		}
		Expect(f.Close()).To(Succeed())
		Expect(f.Close()).To(Succeed())
	})

	It("says that it has no section of a name", func() {
		f, err := bundle.Parse(image(part(1, 0, 5)))
		Expect(err).NotTo(HaveOccurred())
		b, err := f.Section(bundle.ID{Kind: 1, Number: 1}, true)
		Expect(err).NotTo(HaveOccurred())
		Expect(b).To(BeNil())
		Expect(f.Offset(bundle.ID{Kind: 2})).To(BeEquivalentTo(-1))
	})

	It("may have no section at all", func() {
		f, err := bundle.Parse(image())
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Verify()).To(Succeed())
		Expect(f.Size()).To(BeEquivalentTo(header))
	})

	It("cut off anywhere is none", func() {
		whole := image(part(1, 0, 5), part(2, 0, bundle.Align), part(3, 0, 3))
		_, err := bundle.Parse(whole)
		Expect(err).NotTo(HaveOccurred())
		for n := range whole {
			_, err := bundle.Parse(whole[:n])
			switch {
			case n < header:
				Expect(err).To(beFormatError(0, "a header of 32 bytes"), "%d bytes", n)
			case n < header+3*entry:
				Expect(err).To(beFormatError(12, "a table that the file holds"), "%d bytes", n)
			default:
				Expect(err).To(beFormatError(16, fmt.Sprintf("%d bytes", n)), "%d bytes", n)
			}
		}
		_, err = bundle.Parse(append(whole, 0))
		Expect(err).To(beFormatError(16, ""), "nor is one with more behind it")
	})

	It("damaged in a section is found when that is checked", func() {
		list := []bundle.Part{part(1, 0, 5), part(2, 0, bundle.Align), part(3, 0, 3)}
		for _, p := range list {
			raw := image(list...)
			f, err := bundle.Parse(raw)
			Expect(err).NotTo(HaveOccurred())
			at := f.Offset(p.ID)
			raw[at+2] ^= 1
			Expect(f.Verify()).To(beFormatError(at, "[0-9]+ bytes with checksum"))
			_, err = f.Section(p.ID, true)
			Expect(err).To(beFormatError(at, "[0-9]+ bytes with checksum"))
			b, err := f.Section(p.ID, false)
			Expect(err).NotTo(HaveOccurred())
			Expect(b).NotTo(BeEmpty())
		}
	})

	It("damaged in header or table is none", func() {
		whole := image(part(1, 0, 5), part(2, 0, 6))
		for i := range header + 2*entry {
			raw := bytes.Clone(whole)
			raw[i] ^= 0x40
			_, err := bundle.Parse(raw)
			Expect(err).To(MatchError(bundle.ErrFormat), "byte %d", i)
		}
	})

	put32 := func(at int, v uint32) func(b []byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	put64 := func(at int, v uint64) func(b []byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	const first, second = header, header + entry // entries of the table

	DescribeTable("that lies under right checksums is none", func(lie func(b []byte), at int, expected string) {
		raw := image(part(1, 0, 5), part(2, 0, 6))
		lie(raw)
		_, err := bundle.Parse(seal(raw))
		Expect(err).To(beFormatError(int64(at), expected))
	},
		Entry("about its kind", func(b []byte) { copy(b, "CARVEBDM") }, 0, "CARVEBDL"),
		Entry("about its version", put32(8, 2), 8, "version 1"),
		Entry("about its version, 0", put32(8, 0), 8, "version 1"),
		Entry("about the number of sections", put32(12, 1000), 12, "a table that the file holds"),
		Entry("about the number of sections, the most", put32(12, math.MaxUint32), 12, "a table that the file holds"),
		Entry("about its length, less", put64(16, 100), 16, "[0-9]+ bytes, as the file has"),
		Entry("about its length, more", put64(16, 1<<40), 16, "[0-9]+ bytes, as the file has"),
		Entry("about its length, beyond numbers", put64(16, math.MaxUint64), 16, "[0-9]+ bytes, as the file has"),
		Entry("about a section between pages", put64(first+8, bundle.Align+1), first+8, "a section between"),
		Entry("about a section in the header", put64(first+8, 0), first+8, "a section between"),
		Entry("about a section behind the end", put64(second+8, 1<<20), second+8, "a section between"),
		Entry("about a section beyond numbers", put64(second+8, 1<<63), second+8, "a section between"),
		Entry("about a section over another", put64(second+8, bundle.Align), second+8, "a section between"),
		Entry("about a length over the next section", put64(first+16, bundle.Align+1), second+8, "a section between"),
		Entry("about a length over the end", put64(second+16, 7), second+8, "a section between"),
		Entry("about a length beyond numbers", put64(second+16, math.MaxUint64), second+8, "a section between"),
		Entry("about a length that wraps around", put64(second+16, math.MaxInt64), second+8, "a section between"),
	)

	It("is written whole or not at all", func() {
		path := written(part(1, 0, 5))
		before, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		torn := errors.New("torn")
		Expect(bundle.Create(path, []bundle.Part{part(1, 0, 9), {ID: bundle.ID{Kind: 2}, Write: func(w io.Writer) error {
			_, err := w.Write(counting(10_000))
			return errors.Join(err, torn)
		}}})).To(MatchError(torn))
		after, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(bytes.Equal(after, before)).To(BeTrue())
		Expect(filepath.Glob(filepath.Join(filepath.Dir(path), "*"))).To(HaveLen(1))
		Expect(filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))).To(BeEmpty())
		Expect(bundle.Create(path, make([]bundle.Part, 1<<16+1))).To(MatchError(ContainSubstring("65537 sections")))
	})

	It("takes the place of no device", func() {
		path := filepath.Join(GinkgoT().TempDir(), "b")
		if err := os.Symlink(os.DevNull, path); err != nil {
			Skip("links cannot be made here: " + err.Error())
		}
		Expect(bundle.Create(path, nil)).To(MatchError(offheap.ErrNotRegular))
		Expect(os.Readlink(path)).To(Equal(os.DevNull))
	})

	It("may have the longest name", func() {
		path := filepath.Join(GinkgoT().TempDir(), strings.Repeat("b", 255))
		Expect(bundle.Create(path, nil)).To(Succeed())
		Expect(path).To(BeARegularFile())
	})

	It("is no folder, and has to be there", func() {
		dir := GinkgoT().TempDir()
		Expect(bundle.IsFile(dir)).To(BeFalse())
		_, err := bundle.Open(dir)
		Expect(err).To(MatchError(offheap.ErrNotRegular))
		_, err = bundle.Open(filepath.Join(dir, "none"))
		Expect(err).To(MatchError(fs.ErrNotExist))
		empty := filepath.Join(dir, "empty")
		Expect(os.WriteFile(empty, nil, 0o600)).To(Succeed())
		Expect(bundle.IsFile(empty)).To(BeFalse())
		_, err = bundle.Open(empty)
		Expect(err).To(beFormatError(0, "a header"))
	})
})

// FuzzParse opens any bytes as a bundle, under checksums that are right: it is none, or its sections lie in it, one behind the other.
func FuzzParse(f *testing.F) {
	path := filepath.Join(f.TempDir(), "m.carve")
	if err := bundle.Create(path, []bundle.Part{part(1, 0, 5), part(2, 3, bundle.Align), part(3, 0, 0)}); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:header+entry])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= header {
			binary.LittleEndian.PutUint64(b[16:], uint64(len(b)))
			seal(b)
		}
		x, err := bundle.Parse(b)
		if err != nil {
			if !errors.Is(err, bundle.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for at := header; at+entry <= len(b) && at < header+entry*int(binary.LittleEndian.Uint32(b[12:])); at += entry {
			id := bundle.ID{Kind: binary.LittleEndian.Uint32(b[at:]), Number: binary.LittleEndian.Uint32(b[at+4:])}
			s, err := x.Section(id, false)
			if err != nil || s == nil || x.Offset(id) < header || x.Offset(id)+int64(len(s)) > int64(len(b)) {
				t.Fatal(id, len(s), err)
			}
		}
		_ = x.Verify()
	})
}
