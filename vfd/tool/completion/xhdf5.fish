# fish completion for xhdf5. Reads the program's own help, so it offers what the program has.
function __xhdf5_words --description 'The words so far that are no options'
    set -l words (commandline -opc)
    string match -v -- '-*' $words[2..]
end

function __xhdf5_offers
    set -l words (__xhdf5_words)
    if string match -q -- '-*' (commandline -ct)
        set -l path $words[1]
        contains -- "$words[1]" cache recover; and set path $words[1..2]
        xhdf5 $path --help 2>/dev/null | string replace -rf '^  (?:-[a-zA-Z], )?(--[a-z-]+).*' '$1'
        echo --help
    else if test (count $words) -eq 0
        xhdf5 --help 2>/dev/null | string replace -rf '^  xhdf5 ([a-z]+) .*' '$1' | sort -u
    else if test (count $words) -eq 1; and contains -- $words[1] cache recover
        begin
            xhdf5 --help
            xhdf5 recover --help
        end 2>/dev/null | string replace -rf "^ *xhdf5 $words[1] ([a-z]+) .*" '$1' | sort -u
    end
end

function __xhdf5_wants_file
    set -l words (__xhdf5_words)
    test (count $words) -ge 2; and return 0
    test (count $words) -eq 1; and not contains -- $words[1] cache recover
end

complete -c xhdf5 -n 'not __xhdf5_wants_file' -f
complete -c xhdf5 -a '(__xhdf5_offers)'
