package dlpack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/graph/tensor/dlpack"
	"github.com/carve-dev/carve/internal/dl"
)

// request is the C code's.
type request struct {
	code, bits, ndim, hasStrides, byteOffset, flags, major, deviceType int64
	shape, strides                                                     [8]int64
	bytes, start                                                       int64
}

// producer is testdata/producer.c, built once.
var producer = sync.OnceValues(func() (*dl.Library, error) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "dlpack")
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "producer.so")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-o", name, filepath.Join("testdata", "producer.c")).CombinedOutput(); err != nil {
		AddReportEntry("gcc", string(out))
		return nil, err
	}
	DeferCleanup(os.RemoveAll, dir)
	return dl.Open(name)
})

// c calls a function of the producer; without a C compiler the spec is skipped.
//
//go:uintptrescapes
func c(name string, args ...uintptr) uintptr {
	GinkgoHelper()
	if !dl.Supported {
		Skip("no libraries on this platform")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		Skip("no gcc to build the C side with: " + err.Error())
	}
	l, err := producer()
	Expect(err).NotTo(HaveOccurred())
	fn, err := l.Symbol(name)
	Expect(err).NotTo(HaveOccurred())
	return dl.Call(fn, args...)
}

func at[T any](p uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

// makeVersioned has the C code make a tensor.
func makeVersioned(r request) *dlpack.Versioned {
	GinkgoHelper()
	return at[dlpack.Versioned](c("make_versioned", uintptr(unsafe.Pointer(&r))))
}

// vector asks for eight bytes of type u8.
func vector() request {
	return request{code: 1, bits: 8, ndim: 1, major: 1, deviceType: 1, shape: [8]int64{8}, bytes: 8}
}

var _ = Describe("tensors of C code", func() {
	deletions := func() int { GinkgoHelper(); return int(c("count_deleted")) }

	It("have the layout that the C compiler gives them", func() {
		var t dlpack.Tensor
		var l dlpack.Managed
		var v dlpack.Versioned
		for i, want := range []uintptr{unsafe.Offsetof(t.DType), unsafe.Offsetof(t.Shape), unsafe.Offsetof(t.ByteOffset), unsafe.Offsetof(l.Deleter),
			unsafe.Sizeof(l), unsafe.Offsetof(v.Deleter), unsafe.Offsetof(v.Tensor), unsafe.Sizeof(v)} {
			Expect(c("offset_of", uintptr(i))).To(Equal(want), "field %d", i)
		}
	})

	DescribeTable("are read in place", func(change func(*request), shape, strides []int, alignment int, elements ...int) {
		r := vector()
		change(&r)
		before := deletions()
		m := makeVersioned(r)
		in, err := dlpack.Import(m)
		Expect(err).NotTo(HaveOccurred())
		t := in.Tensor()
		Expect(t.Check()).To(Succeed())
		Expect(t.Shape).To(Equal(shape))
		Expect(t.Strides).To(Equal(strides))
		Expect(t.Device).To(Equal(tensor.DeviceID{}))
		Expect(in.Copied()).To(BeFalse())
		Expect(in.Alignment()).To(BeNumerically(">=", alignment))
		if len(elements) > 0 {
			Expect(uintptr(unsafe.Pointer(&t.Data[t.Offset]))).To(Equal(m.Tensor.Data + uintptr(m.Tensor.ByteOffset)))
		}
		dense, err := t.Clone()
		Expect(err).NotTo(HaveOccurred())
		Expect(dense.Bytes()).To(HaveLen(len(elements)))
		for i, x := range elements {
			Expect(dense.Bytes()[i]).To(BeEquivalentTo(x))
		}
		Expect(deletions()).To(Equal(before))
		for range 3 {
			Expect(in.Close()).To(Succeed())
			Expect(deletions()).To(Equal(before + 1))
		}
		Expect(t.Data).To(BeNil())
	},
		Entry("without strides", func(*request) {}, []int{8}, []int(nil), 256, 0, 1, 2, 3, 4, 5, 6, 7),
		Entry("with the strides of compact ones", func(r *request) { r.hasStrides, r.strides = 1, [8]int64{1} }, []int{8}, []int(nil), 256, 0, 1, 2, 3, 4, 5, 6, 7),
		Entry("every other element", func(r *request) { r.hasStrides, r.strides, r.shape = 1, [8]int64{2}, [8]int64{4} }, []int{4}, []int{2}, 256, 0, 2, 4, 6),
		Entry("transposed", func(r *request) { r.ndim, r.hasStrides, r.strides, r.shape = 2, 1, [8]int64{1, 4}, [8]int64{4, 2} }, []int{4, 2}, []int{1, 4}, 256, 0, 4, 1, 5, 2, 6, 3, 7),
		Entry("broadcast", func(r *request) { r.ndim, r.hasStrides, r.strides, r.shape = 2, 1, [8]int64{0, 1}, [8]int64{2, 3} }, []int{2, 3}, []int{0, 1}, 256, 0, 1, 2, 0, 1, 2),
		Entry("from an offset", func(r *request) { r.byteOffset, r.shape = 4, [8]int64{4} }, []int{4}, []int(nil), 4, 4, 5, 6, 7),
		Entry("from a pointer that is not aligned", func(r *request) { r.start, r.shape = 3, [8]int64{4} }, []int{4}, []int(nil), 1, 3, 4, 5, 6),
		Entry("a scalar", func(r *request) { r.ndim = 0 }, []int{}, []int(nil), 256, 0),
		Entry("without an element", func(r *request) { r.shape = [8]int64{0} }, []int{0}, []int(nil), 1),
		Entry("in pinned memory of the host", func(r *request) { r.deviceType = 3 }, []int{8}, []int(nil), 256, 0, 1, 2, 3, 4, 5, 6, 7),
		Entry("with a stride that is never taken", func(r *request) { r.ndim, r.hasStrides, r.strides, r.shape = 2, 1, [8]int64{-99, 1}, [8]int64{1, 8} }, []int{1, 8}, []int(nil), 256, 0, 1, 2, 3, 4, 5, 6, 7),
	)

	DescribeTable("are copied where a Tensor cannot say how they lie", func(change func(*request), dt tensor.DType, shape []int, bytes ...int) {
		r := vector()
		change(&r)
		want := make([]byte, len(bytes))
		for i, x := range bytes {
			want[i] = byte(x)
		}
		before := deletions()
		in, err := dlpack.Import(makeVersioned(r))
		Expect(err).NotTo(HaveOccurred())
		Expect(in.Copied()).To(BeTrue())
		Expect(in.Tensor()).To(And(HaveField("DType", dt), HaveField("Shape", shape), HaveField("Data", want)))
		Expect(in.Close()).To(Succeed())
		Expect(deletions()).To(Equal(before + 1))
	},
		Entry("backwards", func(r *request) { r.hasStrides, r.strides, r.start = 1, [8]int64{-1}, 7 }, tensor.Uint8, []int{8}, 7, 6, 5, 4, 3, 2, 1, 0),
		Entry("rows upside down", func(r *request) {
			r.ndim, r.hasStrides, r.strides, r.shape, r.start = 2, 1, [8]int64{-4, 1}, [8]int64{2, 4}, 4
		}, tensor.Uint8, []int{2, 4}, 4, 5, 6, 7, 0, 1, 2, 3),
		Entry("nibbles in a byte each", func(r *request) { r.bits, r.flags, r.shape = 4, 4, [8]int64{5} }, tensor.Uint4, []int{5}, 0x10, 0x32, 0x04),
		Entry("every other nibble", func(r *request) { r.bits, r.hasStrides, r.strides, r.shape = 4, 1, [8]int64{2}, [8]int64{4} }, tensor.Uint4, []int{4}, 0x10, 0x32),
	)

	It("of the older form are read as well", func() {
		before := deletions()
		r := vector()
		r.code, r.bits, r.shape = 2, 32, [8]int64{2}
		in, err := dlpack.ImportLegacy(at[dlpack.Managed](c("make_legacy", uintptr(unsafe.Pointer(&r)))))
		Expect(err).NotTo(HaveOccurred())
		Expect(in.Tensor().DType).To(Equal(tensor.Float32))
		Expect(in.Tensor().Bytes()).To(Equal([]byte{0, 1, 2, 3, 4, 5, 6, 7}))
		Expect(in.ReadOnly()).To(BeFalse())
		Expect(in.Close()).To(Succeed())
		Expect(deletions()).To(Equal(before + 1))
	})

	It("say whether they may be written, and on which device they are", func() {
		r := vector()
		r.flags, r.deviceType, r.byteOffset = int64(dlpack.ReadOnly), 2, 64
		m := makeVersioned(r)
		in, err := dlpack.Import(m)
		Expect(err).NotTo(HaveOccurred())
		Expect(in.ReadOnly()).To(BeTrue())
		Expect(in.Device()).To(Equal(tensor.DeviceID{Type: tensor.CUDA}))
		Expect(in.Tensor()).To(HaveValue(Equal(tensor.Tensor{DType: tensor.Uint8, Shape: []int{8}, Device: tensor.DeviceID{Type: tensor.CUDA}, Handle: m.Tensor.Data, Offset: 64})))
		Expect(in.Close()).To(Succeed())
		Expect(in.Tensor().Handle).To(BeZero())
	})

	DescribeTable("are given back where they are turned down", func(cause error, field string, change func(*request)) {
		r := vector()
		change(&r)
		before := deletions()
		in, err := dlpack.Import(makeVersioned(r))
		Expect(in).To(BeNil())
		Expect(err).To(MatchError(cause))
		Expect(err).To(MatchError(HavePrefix("dlpack: " + field + ": ")))
		Expect(deletions()).To(Equal(before + 1))
	},
		Entry("another version", dlpack.ErrVersion, "version", func(r *request) { r.major = 2 }),
		Entry("a negative dim", tensor.ErrShape, "shape[0]", func(r *request) { r.shape[0] = -1 }),
		Entry("a dim beyond all memory", tensor.ErrTooLarge, "shape[0]", func(r *request) { r.shape[0] = 1 << 62 }),
		Entry("dims whose product overflows", tensor.ErrTooLarge, "shape", func(r *request) { r.ndim, r.shape = 3, [8]int64{1 << 30, 1 << 30, 1 << 30} }),
		Entry("less than no dims", tensor.ErrShape, "ndim", func(r *request) { r.ndim = -1 }),
		Entry("more dims than there are", tensor.ErrShape, "ndim", func(r *request) { r.ndim = 1 << 30 }),
		Entry("a stride that overflows", tensor.ErrTooLarge, "strides[0]", func(r *request) { r.hasStrides, r.strides = 1, [8]int64{-1 << 63} }),
		Entry("strides that overflow together", tensor.ErrTooLarge, "strides[1]", func(r *request) {
			r.ndim, r.shape, r.hasStrides, r.strides = 2, [8]int64{2, 2}, 1, [8]int64{1 << 45, 1<<45 + 1}
		}),
		Entry("an offset that overflows", tensor.ErrTooLarge, "byte_offset", func(r *request) { r.byteOffset = -8 }),
		Entry("a type that carve has not got", tensor.ErrDType, "dtype", func(r *request) { r.bits = 24 }),
		Entry("no device", tensor.ErrUnsupported, "device.device_type", func(r *request) { r.deviceType = 0 }),
		Entry("backwards on a device", tensor.ErrUnsupported, "strides", func(r *request) { r.deviceType, r.hasStrides, r.strides = 2, 1, [8]int64{-1} }),
	)

	It("are turned down without data or dims, and without a deleter", func() {
		_, err := dlpack.Import(nil)
		Expect(err).To(MatchError(tensor.ErrShape))
		_, err = dlpack.ImportLegacy(nil)
		Expect(err).To(MatchError(tensor.ErrShape))
		host := tensor.DeviceID{Type: tensor.Host}
		_, err = dlpack.ImportLegacy(&dlpack.Managed{Tensor: dlpack.Tensor{Device: host, NDim: 1, DType: dlpack.DataType{Code: 2, Bits: 32, Lanes: 1}}})
		Expect(err).To(MatchError(HavePrefix("dlpack: shape: ")))
		_, err = dlpack.ImportLegacy(&dlpack.Managed{Tensor: dlpack.Tensor{Device: host, DType: dlpack.DataType{Code: 2, Bits: 32, Lanes: 1}}})
		Expect(err).To(MatchError(HavePrefix("dlpack: data: ")))
	})
})

var _ = Describe("tensors for C code", func() {
	It("are read where they are, compact and strided, and given back once", func() {
		x := tensor.From([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
		view, err := x.Slice(1, 1, 3)
		Expect(err).NotTo(HaveOccurred())
		for _, row := range []struct {
			t    *tensor.Tensor
			want int64
		}{{x, 1 + 4 + 9 + 16 + 25 + 36}, {view, 2*1 + 3*2 + 5*3 + 6*4}, {tensor.Scalar[float32](7), 7}} {
			released := 0
			m, err := dlpack.Export(row.t, &dlpack.ExportOptions{Release: func() { released++ }})
			Expect(err).NotTo(HaveOccurred())
			Expect(int64(c("weigh_versioned", uintptr(unsafe.Pointer(m))))).To(Equal(row.want))
			Expect(dlpack.Exports()).To(Equal(1))
			c("give_back", uintptr(unsafe.Pointer(m)))
			Expect(released).To(Equal(1))
			c("give_back", uintptr(unsafe.Pointer(m))) // once too often
			Expect(released).To(Equal(1))
			Expect(dlpack.Exports()).To(BeZero())

			old, err := dlpack.ExportLegacy(row.t, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(int64(c("weigh_legacy", uintptr(unsafe.Pointer(old))))).To(Equal(row.want))
			old.Delete()
			Expect(dlpack.Exports()).To(BeZero())
		}
	})

	It("share what the consumer writes", func() {
		x := tensor.From([]float32{1, 2}, 2)
		m, err := dlpack.Export(x, nil)
		Expect(err).NotTo(HaveOccurred())
		c("write_first", uintptr(unsafe.Pointer(m)), 5)
		Expect(tensor.Of[float32](x)).To(Equal([]float32{5, 2}))
		Expect(c("flags_of", uintptr(unsafe.Pointer(m)))).To(BeZero())
		m.Delete()
		m, err = dlpack.Export(x, &dlpack.ExportOptions{ReadOnly: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(c("flags_of", uintptr(unsafe.Pointer(m)))).To(BeEquivalentTo(dlpack.ReadOnly))
		m.Delete()
	})

	It("may be given back on a thread of the consumer's", func() {
		done := make(chan struct{})
		m, err := dlpack.Export(tensor.Scalar[float32](1), &dlpack.ExportOptions{Release: func() { close(done) }})
		Expect(err).NotTo(HaveOccurred())
		c("give_back_elsewhere", uintptr(unsafe.Pointer(m)))
		Expect(done).To(BeClosed())
	})
})
