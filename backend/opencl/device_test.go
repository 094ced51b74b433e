package opencl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/graph/device"
)

var _ = Describe("an OpenCL device", func() {
	var d device.Device
	BeforeEach(func() { d = open().Devices()[0] })

	alloc := func(n int64) device.Memory {
		GinkgoHelper()
		m, err := d.Alloc(n)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(d.Free, m)
		return m
	}
	stream := func() device.Stream {
		GinkgoHelper()
		s, err := d.NewStream()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		return s
	}
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8}

	It("copies there, about and back, at once and on a stream", func(ctx SpecContext) {
		x, y := alloc(8), alloc(16)
		for _, s := range []device.Stream{nil, stream()} {
			back := make([]byte, 8)
			Expect(d.CopyTo(ctx, s, x, 0, data)).To(Succeed())
			Expect(d.CopyBetween(ctx, s, y, 8, x, 0, 8)).To(Succeed())
			Expect(d.CopyFrom(ctx, s, back, y, 8)).To(Succeed())
			if s != nil {
				Expect(s.Sync(ctx)).To(Succeed())
			}
			Expect(back).To(Equal(data))
		}
		Expect(d.CopyTo(ctx, nil, x, 8, nil)).To(Succeed())
	})

	It("bounds copies and memory", func(ctx SpecContext) {
		x, y := alloc(8), alloc(16)
		for _, err := range []error{
			d.CopyTo(ctx, nil, x, 4, data), d.CopyFrom(ctx, nil, make([]byte, 1), x, -1), d.CopyBetween(ctx, nil, x, 0, y, 9, 8),
			d.CopyBetween(ctx, nil, x, 0, y, 0, -1), d.CopyTo(ctx, nil, device.Memory{Device: d.ID(), Handle: 77}, 0, data),
		} {
			Expect(err).To(MatchError(device.ErrBounds))
		}
		Expect(d.CopyTo(ctx, &device.Queue{}, x, 0, data)).To(MatchError(device.ErrStream))
		for _, n := range []int64{-1, 1 << 50} {
			_, err := d.Alloc(n)
			Expect(err).To(MatchError(device.ErrOutOfMemory))
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		Expect(d.CopyTo(ended, nil, x, 0, data)).To(MatchError(context.Canceled))
	})

	It("waits for the host's events without the host's waiting", func(ctx SpecContext) {
		x, s, other := alloc(8), stream(), stream()
		Expect(d.CopyTo(ctx, nil, x, 0, make([]byte, 8))).To(Succeed())
		gate := device.NewEvent()
		Expect(s.WaitFor(ctx, gate)).To(Succeed())
		Expect(d.CopyTo(ctx, s, x, 0, data)).To(Succeed())
		e, err := s.Record()
		Expect(err).NotTo(HaveOccurred())
		Expect(other.WaitFor(ctx, e)).To(Succeed())
		back := make([]byte, 8)
		Expect(d.CopyFrom(ctx, other, back, x, 0)).To(Succeed())
		last, err := other.Record()
		Expect(err).NotTo(HaveOccurred())

		done, err := e.Done()
		Expect([]any{done, err}).To(Equal([]any{false, nil}))
		short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		Expect(e.Wait(short)).To(MatchError(context.DeadlineExceeded))
		told := make(chan error, 1)
		last.Notify(func(err error) { told <- err })
		Consistently(told, "20ms").ShouldNot(Receive())

		gate.Complete(errors.New("of no matter: order alone counts"))
		Expect(last.Wait(ctx)).To(Succeed())
		Eventually(told).Should(Receive(BeNil()))
		Expect(back).To(Equal(data))
		done, err = e.Done()
		Expect([]any{done, err}).To(Equal([]any{true, nil}))
		e.Close()
		last.Close()
	})

	It("says so where a stream is closed", func(ctx SpecContext) {
		s, err := d.NewStream()
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Close()).To(Succeed())
		Expect(s.Close()).To(Succeed())
		_, err = s.Record()
		Expect(err).To(MatchError(device.ErrClosed))
		Expect(s.WaitFor(ctx, nil)).To(MatchError(device.ErrClosed))
		Expect(d.CopyTo(ctx, s, alloc(8), 0, data)).To(MatchError(device.ErrClosed))
	})

	It("is chosen by options", func() {
		for options, kind := range map[[2]string]error{
			{"device", "99"}: backend.ErrOption, {"platform", "no such platform"}: backend.ErrOption, {"depth", "1"}: backend.ErrOption,
			{"cache", filepath.Join(os.DevNull, "x")}: backend.ErrOption, {"platform", "0"}: nil, {"device", "0"}: nil,
		} {
			b, err := opencl.Open(backend.Config{Options: map[string]string{options[0]: options[1]}})
			if kind == nil {
				Expect(err).NotTo(HaveOccurred(), "%v", options)
				Expect(b.Close()).To(Succeed())
				continue
			}
			Expect(err).To(MatchError(kind), "%v", options)
		}
	})
})

var _ = Describe("without OpenCL", func() {
	It("the backend is unavailable, and says why", func() {
		_, err := opencl.Open(backend.Config{Options: map[string]string{"library": "libdoes-not-exist.so.7"}})
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(ContainSubstring("libdoes-not-exist.so.7")))
	})

	It("another library is none", func() {
		_, err := opencl.Open(backend.Config{Options: map[string]string{"library": "libc.so.6"}})
		Expect(err).To(MatchError(backend.ErrUnavailable))
	})
})
