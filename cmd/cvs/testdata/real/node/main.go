// Command node is what the image of the real-Docker test holds under the names
// of python and python3: the lab's servers and clients, linked statically so
// that the image needs nothing else.
package main

import (
	"fmt"
	"os"

	"cvs/collect/lab"
)

func main() {
	handled, code := lab.Main(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	if !handled {
		fmt.Fprintf(os.Stderr, "%s: not one of the lab's programs\n", os.Args[0])
		code = 127
	}
	os.Exit(code)
}
