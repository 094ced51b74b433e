package dl_test

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/dl"
)

// libc returns the system's C library, which every supported platform has.
func libc() (*dl.Library, error) {
	name := map[string]string{"linux": "libc.so.6", "darwin": "/usr/lib/libSystem.B.dylib", "windows": "msvcrt.dll"}[runtime.GOOS]
	if name == "" {
		name = "libc"
	}
	return dl.Open(name)
}

func openLibc() *dl.Library {
	GinkgoHelper()
	if !dl.Supported {
		Skip("this platform opens no libraries")
	}
	l, err := libc()
	if err != nil {
		Skip("no C library: " + err.Error())
	}
	return l
}

func symbol(l *dl.Library, name string) uintptr {
	GinkgoHelper()
	p, err := l.Symbol(name)
	Expect(err).NotTo(HaveOccurred())
	return p
}

var _ = Describe("Open", func() {
	It("says what cannot be opened", func() {
		_, err := dl.Open("libdoes-not-exist.so.7")
		if !dl.Supported {
			Expect(err).To(MatchError(dl.ErrUnsupported))
			return
		}
		Expect(err).To(MatchError(dl.ErrOpen))
		Expect(err.Error()).To(ContainSubstring("libdoes-not-exist.so.7"))
		_, err = dl.Open("")
		Expect(err).To(MatchError(dl.ErrOpen))
	})

	It("says what is wrong with a file, which the loader does not survive", func() {
		if runtime.GOOS != "linux" || !dl.Supported {
			Skip("other loaders look at files themselves")
		}
		dir := GinkgoT().TempDir()
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		whole, err := os.ReadFile(self)
		Expect(err).NotTo(HaveOccurred())
		foreign := append([]byte(nil), whole[:4096]...)
		foreign[18]++
		for name, file := range map[string]struct {
			content []byte
			reason  string
		}{
			"text.so":    {[]byte("GROUP ( libdnnl.so.3 )\n"), "it is no library"},
			"empty.so":   {nil, "it is no library"},
			"start.so":   {whole[:64], "it is cut off: it has 64 bytes"},
			"half.so":    {whole[:len(whole)/2], "it is cut off"},
			"foreign.so": {foreign, "it is a library for another processor than " + runtime.GOARCH},
		} {
			path := filepath.Join(dir, name)
			Expect(os.WriteFile(path, file.content, 0o600)).To(Succeed())
			_, err := dl.Open(path)
			Expect(err).To(MatchError(dl.ErrOpen))
			Expect(err).To(MatchError(HavePrefix("library " + path + ": cannot be opened: " + file.reason)))
			GinkgoT().Setenv("LD_LIBRARY_PATH", "/does/not/exist:"+dir)
			_, err = dl.Open(name)
			Expect(err).To(MatchError(HavePrefix("library " + name + ": cannot be opened: " + path + ": " + file.reason)))
		}
		_, err = dl.Open(dir)
		Expect(err).To(MatchError(ContainSubstring("it is no regular file")))
		_, err = dl.Open(os.DevNull)
		Expect(err).To(MatchError(ContainSubstring("it is no regular file")))
	})

	It("says which symbol is missing", func() {
		l := openLibc()
		_, err := l.Symbol("carve_has_no_such_symbol")
		Expect(err).To(MatchError(dl.ErrSymbol))
		Expect(err.Error()).To(ContainSubstring("carve_has_no_such_symbol"))
	})
})

// block is what C sees of a test: it lies in the heap.
type block struct {
	frame    dl.Frame
	from, to [64]byte
}

var _ = Describe("calls", func() {
	It("pass arguments and results", func() {
		l := openLibc()
		b := &block{}
		copy(b.from[:], "moved")
		r := dl.Call(symbol(l, "memcpy"), uintptr(unsafe.Pointer(&b.to)), uintptr(unsafe.Pointer(&b.from)), 6)
		Expect(r).To(Equal(uintptr(unsafe.Pointer(&b.to))))
		Expect(string(b.to[:5])).To(Equal("moved"))

		b.frame = dl.Frame{Fn: symbol(l, "labs"), Args: [dl.FrameArgs]uintptr{^uintptr(41)}}
		dl.Invoke(&b.frame)
		Expect(int32(b.frame.Ret)).To(Equal(int32(42)))
	})

	It("pass eighteen arguments in order", func() {
		if runtime.GOOS == "windows" {
			Skip("variadic C functions differ")
		}
		if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
			Skip("variadic arguments lie on the stack")
		}
		l := openLibc()
		b := &block{}
		format := append([]byte("%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d"), 0)
		copy(b.from[:], format)
		b.frame = dl.Frame{Fn: symbol(l, "snprintf"), Args: [dl.FrameArgs]uintptr{uintptr(unsafe.Pointer(&b.to)), 64, uintptr(unsafe.Pointer(&b.from)), 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}}
		dl.Invoke(&b.frame)
		Expect(int32(b.frame.Ret)).To(Equal(int32(38)))
		Expect(string(b.to[:38])).To(Equal("4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"))
	})

	It("work from fresh goroutines whose stacks move", func() {
		l := openLibc()
		labs := symbol(l, "labs")
		var wg sync.WaitGroup
		bad := make(chan int, 64)
		for g := range 64 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				f := new(dl.Frame)
				for i := range 200 {
					*f = dl.Frame{Fn: labs, Args: [dl.FrameArgs]uintptr{uintptr(-(g*1000 + i))}}
					grow(20, f)
					if int(int32(f.Ret)) != g*1000+i {
						bad <- i
						return
					}
				}
			}()
		}
		wg.Wait()
		Expect(bad).To(BeEmpty())
	})

	It("allocate nothing through a Frame", func() {
		l := openLibc()
		f := &dl.Frame{Fn: symbol(l, "labs"), Args: [dl.FrameArgs]uintptr{7}}
		Expect(testing.AllocsPerRun(100, func() { dl.Invoke(f) })).To(BeZero())
	})

	It("bind functions with floats", func() {
		l := openLibc()
		if runtime.GOOS == "windows" {
			Skip("another C library")
		}
		var ldexp func(x float64, n int32) float64
		dl.Bind(&ldexp, symbol(l, "ldexp"))
		Expect(ldexp(1.5, 4)).To(Equal(24.0))
	})
})

// grow makes the stack grow before the call.
func grow(depth int, f *dl.Frame) byte {
	var pad [512]byte
	if depth == 0 {
		dl.Invoke(f)
		return pad[0]
	}
	pad[depth] = grow(depth-1, f)
	return pad[depth]
}

func BenchmarkInvoke(b *testing.B) {
	l, err := libc()
	if err != nil {
		b.Skip(err)
	}
	fn, err := l.Symbol("labs")
	if err != nil {
		b.Skip(err)
	}
	f := &dl.Frame{Fn: fn, Args: [dl.FrameArgs]uintptr{7}}
	b.ReportAllocs()
	for b.Loop() {
		dl.Invoke(f)
	}
}
