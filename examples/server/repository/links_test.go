package repository_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/repository"
)

var _ = Describe("a model whose folder cannot be read", func() {
	link := func(to, at string) {
		GinkgoHelper()
		if err := os.Symlink(to, at); err != nil {
			Skip("there are no links here: " + err.Error())
		}
	}

	It("is not ready, and says why, while others are served, loaded and followed", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		write(dir, "good", 1, adds(1))
		write(dir, "looped", 1, adds(2))
		round := filepath.Join(dir, "looped", "1", "round")
		link("round", round) // a link to itself
		r := opened(ctx, dir, repository.Options{})
		Expect(result(ctx, r, "good", "")).To(BeEquivalentTo(1))
		_, err := result(ctx, r, "looped", "")
		Expect(err).To(MatchError(ContainSubstring("round")))
		Expect(r.Load(ctx, "good", repository.Upload{})).To(Succeed())
		Expect(r.Load(ctx, "looped", repository.Upload{})).To(MatchError(ContainSubstring("round")))

		Expect(r.Poll(ctx)).To(Succeed())
		write(dir, "good", 2, adds(3))
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(result(ctx, r, "good", "")).To(BeEquivalentTo(3))

		Expect(os.Remove(round)).To(Succeed())
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(result(ctx, r, "looped", "")).To(BeEquivalentTo(2))
		link("round", round)
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(r.Poll(ctx)).NotTo(Succeed())
		Expect(result(ctx, r, "looped", "")).To(BeEquivalentTo(2), "what was there goes on")
	})

	It("may have links to what is not there, to folders around it, and names of any kind", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, adds(1))
		link("nowhere", filepath.Join(dir, "m", "1", "gone"))
		link("..", filepath.Join(dir, "m", "1", "up"))
		link(".", filepath.Join(dir, "again"))
		for _, name := range []string{"a\nb", `q"q`, " ", "%2F", "\xff"} {
			if os.Mkdir(filepath.Join(dir, name), 0o755) == nil {
				write(dir, name, 1, adds(2))
			}
		}
		r := opened(ctx, dir, repository.Options{})
		Expect(result(ctx, r, "m", "")).To(BeEquivalentTo(1))
		Expect(result(ctx, r, "%2F", "")).To(BeEquivalentTo(2))
		for _, v := range r.All() {
			Expect(v.Name).To(Equal(strings.ToValidUTF8(v.Name, "")), "clients can say it")
		}
	})
})

var _ = Describe("a configuration of a megabyte and more", func() {
	It("is turned down before it is read", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, adds(1))
		Expect(modeltest.Configure(dir, "m", strings.Repeat("input { }\n", 1<<20))).To(Succeed())
		r := opened(ctx, dir, repository.Options{})
		_, err := result(ctx, r, "m", "")
		Expect(err).To(MatchError(ContainSubstring("at most 1048576 are taken")))
	})
})
