package reorder

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/cpuid"
)

// tileSide returns the side of the tiles that transposeTiles takes.
func tileSide(level cpuid.Level) int {
	if level == cpuid.AVX2 {
		return 8
	}
	return 16
}

func transposeTiles(level cpuid.Level, dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, rows, cols, lanes, n int) {
	switch level {
	case cpuid.AVX512:
		transpose512(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)
	case cpuid.AVX2:
		transpose256(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)
	default:
		portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)
	}
}

func copyLanes(level cpuid.Level, dst *float32, dstStride int, src *float32, srcStride, lanes, stored, n int) {
	switch level {
	case cpuid.AVX512:
		copy512(dst, dstStride, src, srcStride, lanes, stored, n)
	case cpuid.AVX2:
		copy256(dst, dstStride, src, srcStride, lanes, stored, n)
	default:
		portableCopy(dst, dstStride, src, srcStride, lanes, stored, n)
	}
}

// tiles transposes n whole tiles. What lies ahead bytes behind is asked for, unless that is 0: with each row, or, streaming,
// with each tile from src on. The caller knows that the level has streaming stores where it asks for them.
//
// Where tiles lie far apart, a constant distance makes the processor fetch lines at that distance behind the last tile, in vain:
// two by two, the second of two first, they take a tenth to a third less time on a Zen 4. Nearer ones, and ordinary stores to
// memory, are faster with it.
func tiles(level cpuid.Level, to traffic, dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, ahead, n int) {
	pairs := 0
	if to == cached && srcStep > 4<<10 || to == streamed && srcStep >= 16<<10 {
		pairs = 1
	}
	switch {
	case level == cpuid.AVX512 && to == streamed && ahead != 0:
		tilesStreamFetch512(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, pairs, n)
	case level == cpuid.AVX512 && to == streamed:
		tilesStream512(dst, dstStride, dstStep, src, srcStride, srcStep, 0, pairs, n)
	case level == cpuid.AVX512 && ahead != 0:
		tilesFetch512(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, pairs, n)
	case level == cpuid.AVX512:
		tiles512(dst, dstStride, dstStep, src, srcStride, srcStep, 0, pairs, n)
	case level == cpuid.AVX2 && ahead != 0:
		tilesFetch256(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, pairs, n)
	case level == cpuid.AVX2:
		tiles256(dst, dstStride, dstStep, src, srcStride, srcStep, 0, pairs, n)
	default:
		portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, 16, 16, 16, n)
	}
}

// weaveLanes returns how many pixels join and part take at a time, 0 where they do not exist.
func weaveLanes(level cpuid.Level) int {
	switch level {
	case cpuid.AVX512:
		return 16
	case cpuid.AVX2:
		return 8
	}
	return 0
}

// join makes pixels of two to four floats from as many planes, n times weaveLanes of them.
func join(level cpuid.Level, to traffic, planes int, dst, src *float32, srcStride, n int) {
	switch stream := to == streamed; {
	case level == cpuid.AVX2 && planes == 2:
		joinPairs256(dst, src, srcStride, n)
	case level == cpuid.AVX2 && planes == 3:
		joinTriples256(dst, src, srcStride, n)
	case level == cpuid.AVX2:
		joinQuads256(dst, src, srcStride, n)
	case planes == 2 && stream:
		joinPairsStream512(dst, src, srcStride, n)
	case planes == 2:
		joinPairs512(dst, src, srcStride, n)
	case planes == 3 && stream:
		joinTriplesStream512(dst, src, srcStride, n)
	case planes == 3:
		joinTriples512(dst, src, srcStride, n)
	case stream:
		joinQuadsStream512(dst, src, srcStride, n)
	default:
		joinQuads512(dst, src, srcStride, n)
	}
}

// part makes two to four planes from pixels of as many floats, n times weaveLanes of them.
func part(level cpuid.Level, to traffic, planes int, dst *float32, dstStride int, src *float32, n int) {
	switch stream := to == streamed; {
	case level == cpuid.AVX2 && planes == 2:
		partPairs256(dst, src, dstStride, n)
	case level == cpuid.AVX2 && planes == 3:
		partTriples256(dst, src, dstStride, n)
	case level == cpuid.AVX2:
		partQuads256(dst, src, dstStride, n)
	case planes == 2 && stream:
		partPairsStream512(dst, src, dstStride, n)
	case planes == 2:
		partPairs512(dst, src, dstStride, n)
	case planes == 3 && stream:
		partTriplesStream512(dst, src, dstStride, n)
	case planes == 3:
		partTriples512(dst, src, dstStride, n)
	case stream:
		partQuadsStream512(dst, src, dstStride, n)
	default:
		partQuads512(dst, src, dstStride, n)
	}
}

// streamsTiles and streamsRows report whether tiles and copyRows have streaming stores: tiles of AVX2 are half a line wide.
func streamsTiles(level cpuid.Level) bool { return level == cpuid.AVX512 }
func streamsRows(level cpuid.Level) bool  { return level >= cpuid.AVX2 }

// fence comes after streaming stores.
func fence() { storeFence() }

// copyRows copies n rows of 16 floats of each block.
func copyRows(level cpuid.Level, to traffic, dst *float32, dstStride, dstBlock int, src *float32, srcStride, srcBlock, blocks, n int) {
	switch {
	case level == cpuid.AVX512 && to == streamed:
		rowsStream512(dst, dstStride, dstBlock, src, srcStride, srcBlock, blocks, n)
	case level == cpuid.AVX512:
		rows512(dst, dstStride, dstBlock, src, srcStride, srcBlock, blocks, n)
	case level == cpuid.AVX2 && to == streamed:
		rowsStream256(dst, dstStride, dstBlock, src, srcStride, srcBlock, blocks, n)
	case level == cpuid.AVX2:
		rows256(dst, dstStride, dstBlock, src, srcStride, srcBlock, blocks, n)
	default:
		portableRows(dst, dstStride, dstBlock, src, srcStride, srcBlock, blocks, n)
	}
}

func gatherLanes(level cpuid.Level, dst, a, b *float32, m *mixture, keep, n int) {
	switch level {
	case cpuid.AVX512:
		gather512(dst, a, b, m, keep, n)
	case cpuid.AVX2:
		gather256(dst, a, b, m, keep, n)
	default:
		portableGather(dst, a, b, m, keep, n)
	}
}

// castRows changes the type of n rows of lanes elements.
func castRows(level cpuid.Level, k castKind, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lanes, n int) {
	switch level {
	case cpuid.AVX512:
		cast512(k, dst, dstStride, src, srcStride, lanes, n)
	case cpuid.AVX2:
		whole := lanes &^ 7
		if whole > 0 {
			cast256(k, dst, dstStride, src, srcStride, whole, n)
		}
		if whole < lanes {
			from, to := k.sizes()
			portableCast(k, unsafe.Add(dst, whole*to), dstStride, unsafe.Add(src, whole*from), srcStride, lanes-whole, n)
		}
	default:
		portableCast(k, dst, dstStride, src, srcStride, lanes, n)
	}
}

// cast512 calls the kernel of a kind; a table of them would make what they are given escape.
func cast512(k castKind, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lanes, n int) {
	switch k {
	case fromF16:
		castFromF16512(dst, dstStride, src, srcStride, lanes, n)
	case fromBF16:
		castFromBF16512(dst, dstStride, src, srcStride, lanes, n)
	case fromU8:
		castFromU8512(dst, dstStride, src, srcStride, lanes, n)
	case fromS8:
		castFromS8512(dst, dstStride, src, srcStride, lanes, n)
	case toF16:
		castToF16512(dst, dstStride, src, srcStride, lanes, n)
	case toBF16:
		castToBF16512(dst, dstStride, src, srcStride, lanes, n)
	default:
		castToByte512(dst, dstStride, src, srcStride, lanes, n)
	}
}

// cast256 calls the kernel of a kind; a table of them would make what they are given escape.
func cast256(k castKind, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lanes, n int) {
	switch k {
	case fromF16:
		castFromF16256(dst, dstStride, src, srcStride, lanes, n)
	case fromBF16:
		castFromBF16256(dst, dstStride, src, srcStride, lanes, n)
	case fromU8:
		castFromU8256(dst, dstStride, src, srcStride, lanes, n)
	case fromS8:
		castFromS8256(dst, dstStride, src, srcStride, lanes, n)
	case toF16:
		castToF16256(dst, dstStride, src, srcStride, lanes, n)
	case toBF16:
		castToBF16256(dst, dstStride, src, srcStride, lanes, n)
	default:
		castToByte256(dst, dstStride, src, srcStride, lanes, n)
	}
}
