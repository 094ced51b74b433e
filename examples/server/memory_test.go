package main

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
)

// rawInput returns the frame of a request over gRPC whose raw contents have n bytes, for a model of no other input.
func rawInput(model string, n int) []byte {
	input := "\x0a\x01x\x12\x05UINT8\x1a\x05\x01" + string(protowire.AppendVarint(nil, uint64(n)))
	message := string(protowire.AppendString([]byte("\x0a"), model)) + string(protowire.AppendString([]byte("\x2a"), input)) +
		string(protowire.AppendString([]byte("\x3a"), strings.Repeat("x", n)))
	return append(frame(uint32(len(message))), message...)
}

var _ = Describe("large messages over gRPC that come at the same time", func() {
	const limit, size, callers = 100_000_000, 60 << 20, 12
	DescribeTable("are refused beyond the bytes that all requests may have, before they are in memory", func(ctx SpecContext, port, setting string) {
		p := spawned("-models", models(), "-model-control", "explicit", "-max-bytes", "100000000", setting)
		code, body := p.post("/v2/repository/models/echo_uint8/load", "")
		Expect(code).To(Equal(200), body)
		before, message := p.peak(), rawInput("echo_uint8", size)
		var group sync.WaitGroup
		var read, refused atomic.Int64
		for range callers {
			group.Go(func() {
				defer GinkgoRecover()
				switch code, text := raw(ctx, p.addresses[port], message, false); {
				case code == codes.InvalidArgument: // it was read: the model takes another shape
					Expect(text).To(ContainSubstring("shape"))
					read.Add(1)
				case code == codes.ResourceExhausted:
					Expect(text).To(ContainSubstring("have 100000000 bytes together"))
					refused.Add(1)
				default:
					Fail(code.String() + ": " + text)
				}
			})
		}
		group.Wait()
		Expect(read.Load() + refused.Load()).To(BeEquivalentTo(callers))
		Expect(read.Load()).To(BeNumerically(">=", 1), "not all are refused for those that are")
		GinkgoWriter.Println(read.Load(), "read; peak before and after:", before>>20, p.peak()>>20, "MiB")
		Expect(p.peak()-before).To(BeNumerically("<", 2*limit), "the README's five quarters, and what is free to be used again")
		for form, c := range p.askers() {
			code, body := p.post("/v2/repository/models/echo_fp32/load", "")
			Expect(code).To(Equal(200), body)
			Expect(echoes(context.Background(), c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
		}
	}, Entry("on gRPC's port", "grpc", "-mixed=false"), Entry("on HTTP's", "http", "-mixed=false"), Entry("behind net/http", "http", "-mixed"))
})
