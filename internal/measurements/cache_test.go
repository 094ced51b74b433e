package measurements_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/measurements"
)

// writer is the argument that makes this program one that writes until it is killed.
const writer = "-write-measurements="

func TestMain(m *testing.M) {
	for _, a := range os.Args[1:] {
		if dir, ok := strings.CutPrefix(a, writer); ok {
			writeForever(dir)
		}
	}
	os.Exit(m.Run())
}

// keys are those that writers use.
const keys = 16

func key(i int) measurements.Key {
	return measurements.Key{Operator: "Conv/11", Attributes: "pads=[1,1,1,1]\nstrides=[1,1]", Shapes: fmt.Sprintf("f32[1,%d,8,8]", i), Types: "f32", Signature: "jit @host:NCHW16c",
		Backend: "mkl", Library: "2.6.3", Threads: 2, Processor: "amd64 avx2"}
}

// entry is the only one that writers write for key i and round r.
func entry(i, r int) measurements.Entry {
	return measurements.Entry{Nanos: float64(1000*r+i) + 0.5, Noise: float64(r), Runs: r + 1}
}

// note is what a note is about, and what it says a thousand times.
func note(i int) string { return fmt.Sprintf("note %d\nof %d", i, keys) }

func writeForever(dir string) {
	c, err := measurements.Open(dir, nil)
	if err != nil {
		os.Exit(1)
	}
	fmt.Println("writing")
	for r := 0; ; r++ {
		for i := range keys {
			if err := c.Put(key(i), entry(i, r)); err != nil {
				os.Exit(1)
			}
			if _, err := c.AddNote(note(i), strings.Repeat(note(i)+"\n", 1000)); err != nil {
				os.Exit(1)
			}
		}
	}
}

// watched opens a cache whose warnings fail the spec.
func watched(dir string) *measurements.Cache {
	GinkgoHelper()
	c, err := measurements.Open(dir, func(path string, err error) {
		defer GinkgoRecover()
		Fail(fmt.Sprintf("%s: %v", path, err))
	})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// file is the only entry of a folder.
func file(dir string) string {
	GinkgoHelper()
	list, err := filepath.Glob(filepath.Join(dir, "*", "*.time"))
	Expect(err).NotTo(HaveOccurred())
	Expect(list).To(HaveLen(1))
	return list[0]
}

var _ = Describe("A cache", func() {
	It("gives back what was put, exactly, also to whoever opens it later", func() {
		dir := filepath.Join(GinkgoT().TempDir(), "new", "folder")
		c := watched(dir)
		_, ok := c.Get(key(1))
		Expect(ok).To(BeFalse())
		e := measurements.Entry{Nanos: math.Pi * 1e6, Noise: 1.0 / 3, Runs: 7}
		Expect(c.Put(key(1), e)).To(Succeed())
		for _, c := range []*measurements.Cache{c, watched(dir)} {
			got, ok := c.Get(key(1))
			Expect(ok).To(BeTrue())
			Expect(got).To(Equal(e))
			Expect(c.Len()).To(Equal(1))
		}
		Expect(c.Put(key(1), entry(1, 1))).To(Succeed())
		got, _ := c.Get(key(1))
		Expect(got).To(Equal(entry(1, 1)))
	})

	It("tells keys apart by everything that they say", func() {
		c := watched(GinkgoT().TempDir())
		Expect(c.Put(key(1), entry(1, 1))).To(Succeed())
		for _, alter := range []func(k *measurements.Key){
			func(k *measurements.Key) { k.Operator += "x" }, func(k *measurements.Key) { k.Attributes = "" }, func(k *measurements.Key) { k.Shapes = "" },
			func(k *measurements.Key) { k.Types = "f64" }, func(k *measurements.Key) { k.Signature = "" }, func(k *measurements.Key) { k.Backend = "cpu" },
			func(k *measurements.Key) { k.Library = "2.6.4" }, func(k *measurements.Key) { k.Threads = 1 }, func(k *measurements.Key) { k.Processor = "" },
			func(k *measurements.Key) { k.Operator, k.Attributes = "Conv/1", "1\"\nattributes \""+k.Attributes },
		} {
			k := key(1)
			alter(&k)
			_, ok := c.Get(k)
			Expect(ok).To(BeFalse(), "%+v", k)
		}
	})

	It("keeps nothing that is no measurement", func() {
		c := watched(GinkgoT().TempDir())
		for _, e := range []measurements.Entry{{}, {Nanos: -1, Runs: 1}, {Nanos: math.NaN(), Runs: 1}, {Nanos: math.Inf(1), Runs: 1}, {Nanos: 1}, {Nanos: 1, Runs: -1},
			{Nanos: 1, Runs: 1, Noise: math.NaN()}} {
			Expect(c.Put(key(1), e)).To(MatchError(measurements.ErrEntry), "%+v", e)
		}
		huge := key(1)
		huge.Operator = strings.Repeat("x", 2<<20)
		Expect(c.Put(huge, entry(1, 1))).To(MatchError(measurements.ErrEntry))
		Expect(c.Len()).To(BeZero())
	})

	It("keeps the first of what is added, for all who add", func() {
		dir := GinkgoT().TempDir()
		c := watched(dir)
		Expect(c.Add(key(1), entry(1, 1))).To(Equal(entry(1, 1)))
		Expect(watched(dir).Add(key(1), entry(1, 2))).To(Equal(entry(1, 1)))
		Expect(c.AddNote("it", "one")).To(Equal("one"))
		Expect(watched(dir).AddNote("it", "two")).To(Equal("one"))
		text, ok := c.Note("it")
		Expect(ok).To(BeTrue())
		Expect(text).To(Equal("one"))
		Expect(c.PutNote("it", "three")).To(Succeed())
		text, _ = c.Note("it")
		Expect(text).To(Equal("three"))
		_, ok = c.Note("another")
		Expect(ok).To(BeFalse())
		_, err := c.AddNote("much", strings.Repeat("x", 1<<20))
		Expect(err).To(MatchError(measurements.ErrEntry))
		_, err = c.Add(key(2), measurements.Entry{})
		Expect(err).To(MatchError(measurements.ErrEntry))
		Expect(c.Len()).To(Equal(1))
		parts, err := filepath.Glob(filepath.Join(dir, "*", "*.part"))
		Expect(err).NotTo(HaveOccurred())
		Expect(parts).To(BeEmpty())
	})

	It("replaces notes and entries that are not whole, whoever adds", func() {
		dir := GinkgoT().TempDir()
		warned := 0
		c, err := measurements.Open(dir, func(string, error) { warned++ })
		Expect(err).NotTo(HaveOccurred())
		Expect(c.AddNote("it", "one")).To(Equal("one"))
		Expect(c.Add(key(1), entry(1, 1))).To(Equal(entry(1, 1)))
		files, err := filepath.Glob(filepath.Join(dir, "*", "*.*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(2))
		for _, f := range files {
			Expect(os.Truncate(f, 30)).To(Succeed())
		}
		_, ok := c.Note("it")
		Expect(ok).To(BeFalse())
		Expect(warned).To(Equal(1))
		Expect(c.AddNote("it", "two")).To(Equal("two"))
		Expect(c.Add(key(1), entry(1, 2))).To(Equal(entry(1, 2)))
		text, _ := watched(dir).Note("it")
		Expect(text).To(Equal("two"))
	})

	It("gives all who add at one time the same", func() {
		dir := GinkgoT().TempDir()
		var wg sync.WaitGroup
		got := make([]measurements.Entry, 8)
		texts := make([]string, len(got))
		for g := range got {
			c := watched(dir)
			wg.Go(func() {
				defer GinkgoRecover()
				var err error
				got[g], err = c.Add(key(1), entry(1, g))
				Expect(err).NotTo(HaveOccurred())
				texts[g], err = c.AddNote("it", fmt.Sprint(g))
				Expect(err).NotTo(HaveOccurred())
			})
		}
		wg.Wait()
		for g := range got {
			Expect(got[g]).To(Equal(got[0]))
			Expect(texts[g]).To(Equal(texts[0]))
		}
	})

	DescribeTable("ignores a file that is none of its own, with a warning, and replaces it", func(spoil func(path string, content []byte) error) {
		dir := GinkgoT().TempDir()
		var warned []error
		c, err := measurements.Open(dir, func(_ string, err error) { warned = append(warned, err) })
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Put(key(1), entry(1, 1))).To(Succeed())
		path := file(dir)
		content, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(spoil(path, content)).To(Succeed())
		_, ok := c.Get(key(1))
		Expect(ok).To(BeFalse())
		Expect(warned).To(HaveLen(1))
		if info, err := os.Lstat(path); err == nil && !info.IsDir() {
			Expect(c.Put(key(1), entry(1, 2))).To(Succeed())
			got, ok := c.Get(key(1))
			Expect(ok).To(BeTrue())
			Expect(got).To(Equal(entry(1, 2)))
		}
	},
		Entry("cut short", func(path string, b []byte) error { return os.WriteFile(path, b[:len(b)/2], 0o644) }),
		Entry("empty", func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o644) }),
		Entry("with a digit changed", func(path string, b []byte) error {
			return os.WriteFile(path, bytes.Replace(b, []byte("nanos 1"), []byte("nanos 2"), 1), 0o644)
		}),
		Entry("of another version", func(path string, b []byte) error {
			return os.WriteFile(path, bytes.Replace(b, []byte("measurement 1"), []byte("measurement 2"), 1), 0o644)
		}),
		Entry("with something behind", func(path string, b []byte) error { return os.WriteFile(path, append(b, '\n'), 0o644) }),
		Entry("of another key", func(path string, _ []byte) error {
			other, err := os.MkdirTemp("", "")
			if err != nil {
				return err
			}
			defer os.RemoveAll(other)
			if err := watched(other).Put(key(2), entry(2, 1)); err != nil {
				return err
			}
			b, err := os.ReadFile(file(other))
			if err != nil {
				return err
			}
			return os.WriteFile(path, b, 0o644)
		}),
		Entry("of a gigabyte", func(path string, _ []byte) error { return os.Truncate(path, 1<<30) }),
		Entry("a folder", func(path string, _ []byte) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o755)
		}),
		Entry("a link", func(path string, _ []byte) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink("/dev/zero", path)
		}),
	)

	It("removes what was left unfinished long ago, and only that", func() {
		dir := GinkgoT().TempDir()
		Expect(watched(dir).Put(key(1), entry(1, 1))).To(Succeed())
		at := filepath.Dir(file(dir))
		old, fresh := filepath.Join(at, "old.part"), filepath.Join(at, "fresh.part")
		for _, p := range []string{old, fresh} {
			Expect(os.WriteFile(p, []byte("x"), 0o644)).To(Succeed())
		}
		before := time.Now().Add(-2 * time.Hour)
		Expect(os.Chtimes(old, before, before)).To(Succeed())
		Expect(os.Chtimes(file(dir), before, before)).To(Succeed())
		c := watched(dir)
		Expect(old).NotTo(BeAnExistingFile())
		Expect(fresh).To(BeAnExistingFile())
		_, ok := c.Get(key(1))
		Expect(ok).To(BeTrue())
	})

	It("tells of a folder in it that cannot be read, and serves with the others", func() {
		dir := GinkgoT().TempDir()
		Expect(watched(dir).Put(key(1), entry(1, 1))).To(Succeed())
		shut := filepath.Join(dir, "zz")
		Expect(os.Mkdir(shut, 0)).To(Succeed())
		if _, err := os.ReadDir(shut); err == nil {
			Skip("this user may read every folder")
		}
		var told []string
		c, err := measurements.Open(dir, func(path string, err error) {
			Expect(err).To(MatchError(fs.ErrPermission))
			told = append(told, path)
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(told).To(Equal([]string{shut}))
		_, ok := c.Get(key(1))
		Expect(ok).To(BeTrue())
		Expect(c.Len()).To(Equal(1))
	})

	It("says where a folder cannot be one", func() {
		f := filepath.Join(GinkgoT().TempDir(), "file")
		Expect(os.WriteFile(f, nil, 0o644)).To(Succeed())
		_, err := measurements.Open(f, nil)
		Expect(err).To(MatchError(ContainSubstring("file")))
	})

	It("shows whole entries alone to many goroutines", func() {
		c := watched(GinkgoT().TempDir())
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				defer GinkgoRecover()
				for r := range 50 {
					i := (g + r) % keys
					Expect(c.Put(key(i), entry(i, r))).To(Succeed())
					if e, ok := c.Get(key(i)); ok {
						Expect(e).To(Equal(entry(i, int(e.Noise))))
					}
				}
			})
		}
		wg.Wait()
	})

	It("shows whole entries alone while another process writes and is killed, 100 times", func() {
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		dir := GinkgoT().TempDir()
		c := watched(dir)
		seen, random := 0, rand.New(rand.NewPCG(1, 2))
		for range 100 {
			cmd := exec.Command(self, writer+dir)
			out, err := cmd.StdoutPipe()
			Expect(err).NotTo(HaveOccurred())
			Expect(cmd.Start()).To(Succeed())
			_, err = out.Read(make([]byte, 1)) // it writes now
			Expect(err).NotTo(HaveOccurred())
			end := time.Now().Add(time.Duration(random.IntN(5000)) * time.Microsecond)
			for i := 0; time.Now().Before(end); i = (i + 1) % keys {
				seen += whole(c, i)
			}
			Expect(cmd.Process.Kill()).To(Succeed())
			_ = cmd.Wait() // it was killed
			for i := range keys {
				seen += whole(c, i)
			}
		}
		Expect(seen).To(BeNumerically(">", 100))
		for i := range keys {
			Expect(c.Put(key(i), entry(i, 3))).To(Succeed())
			got, _ := c.Get(key(i))
			Expect(got).To(Equal(entry(i, 3)))
		}
		Expect(c.Len()).To(Equal(keys))
		Expect(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { return err })).To(Succeed())
	})
})

// whole checks the entry of key i and note i, and returns 1 where there is an entry.
func whole(c *measurements.Cache, i int) int {
	GinkgoHelper()
	if text, ok := c.Note(note(i)); ok {
		Expect(text).To(Equal(strings.Repeat(note(i)+"\n", 1000)))
	}
	e, ok := c.Get(key(i))
	if !ok {
		return 0
	}
	Expect(e).To(Equal(entry(i, int(e.Noise))))
	return 1
}
