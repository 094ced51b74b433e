package gpugroup

import (
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// How a product is cut into tiles is part of a signature's name, so that tuning measures tiles as it measures formats, keeps them with
// the rest, and plans list them. The first signature leaves the choice to the model of waves, for the shapes of each run.

// mostTiles is the most signatures that differ in tiles, and as many as tuning measures of a node on a backend: that of a library takes the
// place of the last.
const mostTiles = 6

// tiled returns a signature, and those that differ from it in the tile of the kernel alone, with what they take longer by the model.
func (d *Device) tiled(h head, s graph.Signature, one *graph.Node) []graph.Signature {
	list := []graph.Signature{s}
	if h.tiles == nil {
		return list
	}
	tiles, err := h.tiles(d, one)
	if err != nil || len(tiles) < 2 {
		return list
	}
	unit := d.Ceilings.multiplication(d.Kernels.Processors)
	for _, t := range tiles[1:min(len(tiles), mostTiles)] {
		v := s
		v.Name += " " + t.Name()
		v.Extra = s.Extra + unit*(t.Share()-tiles[0].Share())
		list = append(list, v)
	}
	return list
}

// tileOf returns the tile that a node's signature names, "" for none.
func tileOf(n *graph.Node) string {
	_, tile, _ := strings.Cut(n.SigName, " ")
	return tile
}

func convTiles(d *Device, one *graph.Node) ([]gpukernel.Tile, error) {
	s, err := convShape(one)
	if err != nil {
		return nil, err
	}
	return gpukernel.ConvTiles(d.Kernels, s)
}

func matMulTiles(d *Device, one *graph.Node) ([]gpukernel.Tile, error) {
	s, err := matMulShape(one)
	if err != nil {
		return nil, err
	}
	return gpukernel.Tiles(d.Kernels, s)
}

func gemmTiles(d *Device, one *graph.Node) ([]gpukernel.Tile, error) {
	s, _, _, err := gemmShape(one)
	if err != nil {
		return nil, err
	}
	if s.TransposedB && fuse.IsConst(one.Inputs[1]) { // it is kept the other way
		s.TransposedB, s.B.Stride = false, s.N
	}
	return gpukernel.Tiles(d.Kernels, s)
}
