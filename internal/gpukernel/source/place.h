/*
 * Which tile of a product a group computes. Groups that follow each other take tiles of a strip of STRIP rows of tiles, so
 * that what they read is still in the cache of the device. Behind the tiles come, in the third dimension of the grid, the
 * splits of the depth, and the batch as a pair of indices.
 */
#define BLOCK_PLACE \
	const int tiles_m = (rows + BM - 1) / BM, tiles_n = (COLUMNS + BN - 1) / BN; \
	const int strip = GROUP(0) / (STRIP * tiles_n), in_strip = GROUP(0) - strip * (STRIP * tiles_n); \
	const int strip_rows = tiles_m - strip * STRIP < STRIP ? tiles_m - strip * STRIP : STRIP; \
	const int tile_n = in_strip / strip_rows; \
	const int row0 = (strip * STRIP + in_strip - tile_n * strip_rows) * BM, column0 = tile_n * BN; \
	const int split = GROUP(2) % SPLITS, batch = GROUP(2) / SPLITS; \
	const int batch0 = batch / BATCH1, batch1 = batch - batch0 * BATCH1; \
	const i64 batch_a = (i64)batch0 * A_BATCH0 + (i64)batch1 * A_BATCH1; \
	const i64 batch_b = (i64)batch0 * B_BATCH0 + (i64)batch1 * B_BATCH1; \
	const i64 batch_c = SPLITS > 1 ? (i64)GROUP(2) * rows * COLUMNS : (i64)batch0 * C_BATCH0 + (i64)batch1 * C_BATCH1; \
	const int all_slices = (DEPTH + BK - 1) / BK, per_split = (all_slices + SPLITS - 1) / SPLITS; \
	const int slice0 = split * per_split; \
	const int slices = all_slices - slice0 < per_split ? all_slices - slice0 : per_split;
