"""A worker: claims tasks over HTTP and does their work in child processes."""
