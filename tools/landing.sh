# SPDX-License-Identifier: Apache-2.0
# For checks of the last landing (see before_landing), and for checks that alternate from commit to
# commit.

# 0 if the clone has no history.
commit_count() { git rev-list --count HEAD 2>/dev/null || echo 0; }

# The commit before the last landing. If there is a main to compare with, the landing is the
# branch's own commits; else it is the last commit, which may be a merge. Prints nothing if the
# clone has no history.
before_landing() {
  local main commit
  for main in origin/main main; do
    commit=$(git merge-base HEAD "$main" 2>/dev/null) || continue
    [ "$commit" = "$(git rev-parse HEAD)" ] || { echo "$commit"; return; }
  done
  git rev-parse --verify --quiet HEAD^1 || true
}
