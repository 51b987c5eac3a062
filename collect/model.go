package collect

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"cvs/collect/plan"
)

// modelScript looks at one model in the Hugging Face cache, or at a plain folder
// when the second argument is set. It prints facts, one a line; whether they are
// enough is decided here, in [parseModel].
//
//	missing | snapshot NAME | file BYTES NAME | shard NAME | incomplete NAME | unreadable
const modelScript = `r=$1 local=$2
[ -d "$r" ] || { echo missing; exit 0; }
if [ -n "$local" ]; then s=$r; else
 s=; [ -f "$r/refs/main" ] && s=$r/snapshots/$(cat -- "$r/refs/main")
 [ -n "$s" ] && [ -d "$s" ] || { s=; for d in "$r"/snapshots/*/; do [ -d "$d" ] && s=${d%/}; done; }
 [ -n "$s" ] || { echo missing; exit 0; }
 for f in "$r"/blobs/*.incomplete; do [ -e "$f" ] && echo "incomplete ${f##*/}"; done
fi
echo "snapshot ${s##*/}"
for f in "$s"/*; do [ -f "$f" ] && printf 'file %s %s\n' "$(stat -L -c %s -- "$f")" "${f##*/}"; done
for f in "$s"/*.index.json; do [ -f "$f" ] || continue
 grep -o '"[^"/]*\.\(safetensors\|bin\|pt\)"' "$f" | sort -u | while IFS= read -r n; do n=${n#\"}; echo "shard ${n%\"}"; done
done
exit 0`

// isLocalModel is "local" for a model named by its path, else "".
func isLocalModel(p *plan.Plan) string {
	if strings.HasPrefix(p.Model.ID, "/") {
		return "local"
	}
	return ""
}

// modelRoot is where the model's files are in the container.
func modelRoot(p *plan.Plan) string {
	if isLocalModel(p) != "" {
		return p.Model.ID
	}
	return path.Join(p.Paths.ModelsDir, "models--"+strings.ReplaceAll(p.Model.ID, "/", "--"))
}

// A modelState is what was found of the requested model.
type modelState struct {
	Missing  bool
	Snapshot string
	Bytes    int64
	Problems []string // why it cannot be served
}

// parseModel reads the output of modelScript.
func parseModel(out []byte) modelState {
	var m modelState
	var files, shards []string
	for line := range strings.Lines(string(out)) {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		switch word {
		case "missing":
			m.Missing = true
			return m
		case "snapshot":
			m.Snapshot = rest
		case "file":
			size, name, _ := strings.Cut(rest, " ")
			n, err := strconv.ParseInt(size, 10, 64)
			if err != nil || n == 0 {
				m.Problems = append(m.Problems, name+" is empty")
			}
			m.Bytes += n
			files = append(files, name)
		case "shard":
			shards = append(shards, rest)
		case "incomplete":
			m.Problems = append(m.Problems, "a download is unfinished ("+rest+")")
		}
	}
	if !slices.Contains(files, "config.json") {
		m.Problems = append(m.Problems, "config.json is not there")
	}
	var gone []string
	for _, s := range shards {
		if !slices.Contains(files, s) {
			gone = append(gone, s)
		}
	}
	if len(gone) > 0 {
		m.Problems = append(m.Problems, fmt.Sprintf("%d of %d shards of the index are not there, first %s", len(gone), len(shards), gone[0]))
	}
	return m
}
