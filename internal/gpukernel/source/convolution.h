/*
 * Where the left operand of a product comes from: windows of an image [N, H, W, C], or of a volume [N, D, H, W, C] where IN_D is defined,
 * which nobody writes out. Row m of the operand is the window of output (n, od, oh, ow); its columns are (kd, kh, kw, c). Images of one
 * group of channels are read, which GROUP_OF_CHANNELS tells.
 */
#ifdef IN_D
#define DEPTH_STATE int left_d[A_COPIES]; int kernel_d;
#define DEPTH_ROW(i) { \
	int volume = image / OUT_D; \
	left_d[i] = (image - volume * OUT_D) * STRIDE_D - PAD_D; \
	image = volume * IN_D; \
}
#define DEPTH_COLUMN { \
	kernel_d = window / (KERNEL_H * KERNEL_W); \
	window -= kernel_d * (KERNEL_H * KERNEL_W); \
	kernel_d *= DILATION_D; \
}
#define DEPTH_TAKE(i) && (u32)(left_d[i] + kernel_d) < (u32)IN_D
#define DEPTH_LINES(i) (left_d[i] + kernel_d) * IN_H +
#else
#define DEPTH_STATE
#define DEPTH_ROW(i)
#define DEPTH_COLUMN
#define DEPTH_TAKE(i)
#define DEPTH_LINES(i)
#endif
#define LEFT_STATE const GLOBAL A_T *left_image[A_COPIES]; int left_h[A_COPIES], left_w[A_COPIES]; int kernel_h, kernel_w, kernel_c; DEPTH_STATE
#define LEFT_ROW(i, m) { \
	int valid = (m) < rows; \
	int pixel = valid ? (m) : 0; \
	int image = pixel / (OUT_H * OUT_W); \
	int at = pixel - image * (OUT_H * OUT_W); \
	int oh = at / OUT_W; \
	left_h[i] = valid ? oh * STRIDE_H - PAD_H : -(1 << 28); \
	left_w[i] = (at - oh * OUT_W) * STRIDE_W - PAD_W; \
	DEPTH_ROW(i) \
	left_image[i] = a + batch_a + (i64)image * (IN_H * IN_W) * IN_STRIDE; \
}
#define LEFT_COLUMN(k) { \
	int window = (k) / CHANNELS; \
	kernel_c = (k) - window * CHANNELS; \
	DEPTH_COLUMN \
	kernel_h = window / KERNEL_W; \
	kernel_w = (window - kernel_h * KERNEL_W) * DILATION_W; \
	kernel_h *= DILATION_H; \
}
#define LEFT_TAKE(i, k) ((k) < DEPTH && (u32)(left_h[i] + kernel_h) < (u32)IN_H && (u32)(left_w[i] + kernel_w) < (u32)IN_W DEPTH_TAKE(i))
#define LEFT_SOURCE(i, k) \
	(left_image[i] + ((i64)(DEPTH_LINES(i) (left_h[i] + kernel_h)) * IN_W + (left_w[i] + kernel_w)) * IN_STRIDE + kernel_c)
