/* The folder of the library that this is compiled into: where images and what they include are put. */
static const char *folder(void) {
	static char path[3800];
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&once);
	if (!*path) {
		Dl_info self;
		if (dladdr((void *)folder, &self) && strlen(self.dli_fname) < sizeof path) {
			strcpy(path, self.dli_fname);
			char *last = strrchr(path, '/');
			if (last) *last = 0;
		}
	}
	pthread_mutex_unlock(&once);
	return path;
}
