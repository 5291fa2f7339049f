# Runs clean.py with the interpreter of minor version $MINOR, wherever the base has it. Ends with 96 where there is none.
for p in "python$MINOR" "/usr/local/bin/python$MINOR" "/opt/python/bin/python$MINOR" python3 python; do
  if "$p" -I -S -B -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$MINOR')" 2>/dev/null; then
    # One seed: the order of sets in bytecode depends on it. No -I, which would not hear of it.
    PYTHONHASHSEED=0 exec "$p" -s -S -B /.taskforge/clean.py
  fi
done
exit 96
