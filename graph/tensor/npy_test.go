package tensor_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

// npy makes a file of any version with a header as given.
func npy(version byte, header string, data []byte) []byte {
	b := append([]byte("\x93NUMPY"), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	return append(append(b, header...), data...)
}

func dict(descr, order, shape string) string {
	return fmt.Sprintf("{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n", descr, order, shape)
}

// readBoth reads from bytes and from a reader that returns one byte at a time, and expects the same.
func readBoth(b []byte) (*tensor.Tensor, error) {
	GinkgoHelper()
	t, err := tensor.ParseNPY(b)
	u, err2 := tensor.ReadNPY(iotest.OneByteReader(bytes.NewReader(b)))
	Expect(err2 == nil).To(Equal(err == nil), "%v and %v", err, err2)
	if err == nil {
		Expect(u.Shape).To(Equal(t.Shape))
		Expect(u.Data).To(Equal(t.Data))
		Expect(u.Strings).To(Equal(t.Strings))
	}
	return t, err
}

var _ = Describe("npy", func() {
	It("writes what NumPy writes", func() {
		var buf bytes.Buffer
		Expect(tensor.WriteNPY(&buf, tensor.From([]float32{1, 2, 3}))).To(Succeed())
		want := "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }" + strings.Repeat(" ", 60) + "\n" +
			"\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40"
		Expect(buf.String()).To(Equal(want))
	})

	DescribeTable("round trip", func(t *tensor.Tensor) {
		var buf bytes.Buffer
		Expect(tensor.WriteNPY(&buf, t)).To(Succeed())
		got, err := readBoth(buf.Bytes())
		Expect(err).NotTo(HaveOccurred())
		Expect(got.String()).To(Equal(t.String()))
		Expect(got.Data).To(Equal(t.Bytes()))
		Expect(got.Strings).To(Equal(t.Strings))
	},
		Entry(nil, tensor.From([]float64{1, 2, 3, 4}, 2, 2)),
		Entry(nil, tensor.From([]int8{-1})),
		Entry(nil, tensor.From([]uint16{1, 2})),
		Entry(nil, tensor.From([]bool{true, false})),
		Entry(nil, tensor.From([]complex128{1 + 2i})),
		Entry(nil, tensor.Scalar(int64(7))),
		Entry(nil, tensor.From([]uint32{}, 3, 0, 2)),
		Entry(nil, &tensor.Tensor{DType: tensor.Float16, Shape: []int{1}, Data: []byte{0, 0x3c}}),
		Entry(nil, tensor.FromStrings([]string{"a", "", "größe", "a\x00b"})),
		Entry(nil, tensor.FromStrings([]string{}, 0)),
	)

	DescribeTable("reading", func(version byte, header string, data string, want []float64, shape []int) {
		t, err := readBoth(npy(version, header, []byte(data)))
		Expect(err).NotTo(HaveOccurred())
		got := make([]float64, t.Len())
		Expect(tensor.Decode(got, t)).To(Succeed())
		Expect(got).To(Equal(want))
		Expect(t.Shape).To(Equal(shape))
	},
		Entry("big-endian", byte(1), dict("'>i4'", "False", "(2,)"), "\x00\x00\x00\x01\xff\xff\xff\xfe", []float64{1, -2}, []int{2}),
		Entry("big-endian floats", byte(1), dict("'>f8'", "False", "()"), "\x3f\xf8\x00\x00\x00\x00\x00\x00", []float64{1.5}, []int{}),
		Entry("Fortran order", byte(2), dict("'|u1'", "True", "(2, 3)"), "\x01\x04\x02\x05\x03\x06", []float64{1, 2, 3, 4, 5, 6}, []int{2, 3}),
		Entry("version 3, double quotes, odd spacing", byte(3), `{"shape":( 2 , ) , "descr":"<i2","fortran_order":False}`, "\x01\x00\x02\x00", []float64{1, 2}, []int{2}),
		Entry("Python 2's long", byte(1), dict("'<i1'", "False", "(1L, 2L)"), "\x05\x06", []float64{5, 6}, []int{1, 2}),
		Entry("empty", byte(1), dict("'<f4'", "False", "(0, 99999999)"), "", []float64{}, []int{0, 99999999}),
		Entry("bool", byte(1), dict("'|b1'", "False", "(2,)"), "\x00\x01", []float64{0, 1}, []int{2}),
	)

	It("reads byte strings and strings of the other byte order", func() {
		t, err := readBoth(npy(1, dict("'|S3'", "False", "(2,)"), []byte("ab\x00xyz")))
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Strings).To(Equal([]string{"ab", "xyz"}))
		t, err = readBoth(npy(1, dict("'>U2'", "True", "(1, 2)"), []byte("\x00\x00\x00\xe4\x00\x00\x00\x00\x00\x01\xf6\x00\x00\x00\x00\x62")))
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Strings).To(Equal([]string{"ä", "😀b"}))
	})

	It("swaps complex numbers by halves", func() {
		t, err := readBoth(npy(1, dict("'>c8'", "False", "(1,)"), []byte("\x3f\x80\x00\x00\x40\x00\x00\x00")))
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Elements[complex64](t)).To(Equal([]complex64{1 + 2i}))
	})

	DescribeTable("faults", func(file []byte, want error) {
		_, err := readBoth(file)
		Expect(err).To(MatchError(want))
	},
		Entry("empty file", []byte{}, tensor.ErrTruncated),
		Entry("cut magic", []byte("\x93NUM"), tensor.ErrTruncated),
		Entry("no magic", []byte("PK\x03\x04aaaaaaaaaaaaaaaaaaa"), tensor.ErrSyntax),
		Entry("unknown version", npy(9, "", nil), tensor.ErrUnsupported),
		Entry("cut header", npy(1, dict("'<f4'", "False", "(2,)"), nil)[:30], tensor.ErrTruncated),
		Entry("cut elements", npy(1, dict("'<f4'", "False", "(2,)"), make([]byte, 7)), tensor.ErrTruncated),
		Entry("2^60 elements", npy(1, dict("'<f4'", "False", "(1152921504606846976,)"), make([]byte, 7)), tensor.ErrTooLarge),
		Entry("2^40 elements", npy(1, dict("'|u1'", "False", "(1048576, 1048576)"), make([]byte, 7)), tensor.ErrTruncated),
		Entry("overflowing dims", npy(1, dict("'|u1'", "False", "(4294967296, 4294967296)"), nil), tensor.ErrTooLarge),
		Entry("huge header", npy(2, strings.Repeat(" ", 1<<17), nil), tensor.ErrTooLarge),
		Entry("negative dim", npy(1, dict("'|u1'", "False", "(-1,)"), nil), tensor.ErrSyntax),
		Entry("pickle", npy(1, dict("'|O'", "False", "(1,)"), []byte("\x80\x04")), tensor.ErrUnsupported),
		Entry("structured dtype", npy(1, dict("[('a', '<f4')]", "False", "(1,)"), nil), tensor.ErrUnsupported),
		Entry("date", npy(1, dict("'<M8[ns]'", "False", "(1,)"), make([]byte, 8)), tensor.ErrUnsupported),
		Entry("void", npy(1, dict("'|V2'", "False", "(1,)"), make([]byte, 2)), tensor.ErrUnsupported),
		Entry("key missing", npy(1, "{'descr': '<f4', 'shape': (1,)}", make([]byte, 4)), tensor.ErrSyntax),
		Entry("key twice", npy(1, "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", make([]byte, 4)), tensor.ErrSyntax),
		Entry("text after the dict", npy(1, dict("'<f4'", "False", "(1,)")+"x", make([]byte, 4)), tensor.ErrSyntax),
		Entry("bool of 7", npy(1, dict("'|b1'", "False", "(1,)"), []byte{7}), tensor.ErrSyntax),
		Entry("surrogate", npy(1, dict("'<U1'", "False", "(1,)"), []byte{0, 0xd8, 0, 0}), tensor.ErrSyntax),
		Entry("a milliard empty strings", npy(1, dict("'|S0'", "False", "(1000000000,)"), nil), tensor.ErrTooLarge),
	)

	It("allocates by what the reader holds, not by what the header claims", func() {
		file := npy(1, dict("'|u1'", "False", "(1048576, 1048576)"), make([]byte, 100))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := tensor.ReadNPY(bytes.NewReader(file))
		runtime.ReadMemStats(&after)
		Expect(err).To(MatchError(tensor.ErrTruncated))
		Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 4<<20))
	})

	It("leaves what follows the elements to the reader's owner", func() {
		r := bytes.NewReader(append(npy(1, dict("'|u1'", "False", "(1,)"), []byte{9}), "rest"...))
		t, err := tensor.ReadNPY(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Data).To(Equal([]byte{9}))
		Expect(io.ReadAll(r)).To(Equal([]byte("rest")))
	})

	It("refuses to write what NumPy does not have", func() {
		t, err := tensor.New(tensor.BFloat16, 2)
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.WriteNPY(io.Discard, t)).To(MatchError(tensor.ErrUnsupported))
		Expect(tensor.WriteNPY(io.Discard, tensor.FromStrings([]string{"a\x00"}))).To(MatchError(tensor.ErrUnsupported))
	})

	It("reads files, and only regular ones", func() {
		dir := GinkgoT().TempDir()
		path := filepath.Join(dir, "a.npy")
		var buf bytes.Buffer
		Expect(tensor.WriteNPY(&buf, tensor.From([]int32{1, 2}))).To(Succeed())
		Expect(os.WriteFile(path, buf.Bytes(), 0o600)).To(Succeed())
		t, err := tensor.ReadNPYFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[int32](t)).To(Equal([]int32{1, 2}))
		_, err = tensor.ReadNPYFile(dir)
		Expect(err).To(MatchError(tensor.ErrUnsupported))
	})
})

var _ = Describe("npz", func() {
	arrays := []tensor.Named{
		{Name: "x", Tensor: tensor.From([]float32{1, 2, 3, 4}, 2, 2)},
		{Name: "dir/y", Tensor: tensor.FromStrings([]string{"one"})},
		{Name: "zeros", Tensor: tensor.From(make([]int64, 10000))},
	}

	DescribeTable("round trip", func(c tensor.Compression) {
		var buf bytes.Buffer
		Expect(tensor.WriteNPZ(&buf, arrays, c)).To(Succeed())
		path := filepath.Join(GinkgoT().TempDir(), "a.npz")
		Expect(os.WriteFile(path, buf.Bytes(), 0o600)).To(Succeed())
		got, err := tensor.ReadNPZFile(path, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(HaveLen(3))
		for i, a := range got {
			Expect(a.Name).To(Equal(arrays[i].Name))
			Expect(a.Tensor.String()).To(Equal(arrays[i].Tensor.String()))
			Expect(a.Tensor.Data).To(Equal(arrays[i].Tensor.Data))
			Expect(a.Tensor.Strings).To(Equal(arrays[i].Tensor.Strings))
		}
	}, Entry("stored", tensor.Stored), Entry("deflated", tensor.Deflated))

	It("stops at the limit", func() {
		var buf bytes.Buffer
		Expect(tensor.WriteNPZ(&buf, arrays, tensor.Deflated)).To(Succeed())
		_, err := tensor.ReadNPZ(bytes.NewReader(buf.Bytes()), int64(buf.Len()), &tensor.NPZOptions{MaxBytes: 50000})
		Expect(err).To(MatchError(tensor.ErrTooLarge))
		Expect(err.Error()).To(MatchRegexp(`npz entry ".*" of \d+ bytes, \d+ are left of the limit`))
	})

	It("counts what strings take beside their bytes", func() {
		var buf bytes.Buffer
		z := zip.NewWriter(&buf)
		w, err := z.Create("x.npy")
		Expect(err).NotTo(HaveOccurred())
		head := "{'descr': '|S1', 'fortran_order': False, 'shape': (40000,), }"
		_, err = fmt.Fprintf(w, "\x93NUMPY\x01\x00%c\x00%s%s", len(head), head, make([]byte, 40000))
		Expect(err).NotTo(HaveOccurred())
		Expect(z.Close()).To(Succeed())
		read := func(most int) error {
			_, err := tensor.ReadNPZ(bytes.NewReader(buf.Bytes()), int64(buf.Len()), &tensor.NPZOptions{MaxBytes: most})
			return err
		}
		Expect(read(17*40000 - 1)).To(MatchError(tensor.ErrTooLarge))
		Expect(read(17*40000 - 1)).To(MatchError(ContainSubstring(`npz entry "x.npy"`)))
		Expect(read(17*40000 + 100)).To(Succeed())
	})

	It("refuses a claim that no deflate stream can keep", func() {
		var buf bytes.Buffer
		Expect(tensor.WriteNPZ(&buf, arrays[:1], tensor.Deflated)).To(Succeed())
		b := buf.Bytes()
		at := bytes.LastIndex(b, []byte("PK\x01\x02"))
		binary.LittleEndian.PutUint32(b[at+24:], 1<<30)
		_, err := tensor.ReadNPZ(bytes.NewReader(b), int64(len(b)), nil)
		Expect(err).To(MatchError(tensor.ErrSyntax))
	})

	It("finds a flipped bit by the checksum", func() {
		var buf bytes.Buffer
		Expect(tensor.WriteNPZ(&buf, arrays[:1], tensor.Stored)).To(Succeed())
		b := buf.Bytes()
		b[bytes.Index(b, []byte{0, 0, 0x80, 0x3f})] ^= 1
		_, err := tensor.ReadNPZ(bytes.NewReader(b), int64(len(b)), nil)
		Expect(err).To(MatchError(tensor.ErrSyntax))
	})

	It("refuses entries that are no arrays, twice the same, or cut", func() {
		var buf bytes.Buffer
		z := zip.NewWriter(&buf)
		_, err := z.Create("readme.txt")
		Expect(err).NotTo(HaveOccurred())
		Expect(z.Close()).To(Succeed())
		_, err = tensor.ReadNPZ(bytes.NewReader(buf.Bytes()), int64(buf.Len()), nil)
		Expect(err).To(MatchError(tensor.ErrUnsupported))
		Expect(tensor.WriteNPZ(io.Discard, []tensor.Named{arrays[0], arrays[0]}, tensor.Stored)).To(MatchError(tensor.ErrSyntax))
		_, err = tensor.ReadNPZ(bytes.NewReader(buf.Bytes()[:20]), 20, nil)
		Expect(err).To(MatchError(tensor.ErrSyntax))
	})
})

func FuzzNPY(f *testing.F) {
	f.Add(npy(1, dict("'<f4'", "False", "(2,)"), make([]byte, 8)))
	f.Add(npy(2, dict("'>U2'", "True", "(1, 2)"), make([]byte, 16)))
	f.Add(npy(3, dict("'>c16'", "True", "(2, 2)"), make([]byte, 64)))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := tensor.ParseNPY(b)
		if err != nil {
			return
		}
		if err := v.Check(); err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if err := tensor.WriteNPY(&buf, v); err != nil {
			return // byte strings need not be UTF-8
		}
		w, err := tensor.ParseNPY(buf.Bytes())
		if err != nil || w.String() != v.String() || !bytes.Equal(w.Data, v.Data) {
			t.Fatalf("%v written and read is %v, %v", v, w, err)
		}
	})
}

func FuzzNPZ(f *testing.F) {
	for _, c := range []tensor.Compression{tensor.Stored, tensor.Deflated} {
		var buf bytes.Buffer
		if err := tensor.WriteNPZ(&buf, []tensor.Named{{Name: "a", Tensor: tensor.From([]int16{1, 2})}}, c); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		arrays, err := tensor.ReadNPZ(bytes.NewReader(b), int64(len(b)), &tensor.NPZOptions{MaxBytes: 1 << 20})
		for _, a := range arrays {
			if cerr := a.Tensor.Check(); err == nil && cerr != nil {
				t.Fatal(cerr)
			}
		}
	})
}
