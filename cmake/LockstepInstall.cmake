# What is installed, in two components: "lockstep" (command line, agent, examples) and "studio". Programs look for the
# agent in ../lib/lockstep/bundle and for examples in ../share/lockstep/examples (app/deploy/bundle.h, app/cli/command.cc).
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME lockstep)
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATAROOTDIR})
set(man1 ${CMAKE_INSTALL_MANDIR}/man1)

# The manual page and the completions, of the command's own table of commands.
set(documents ${CMAKE_BINARY_DIR}/documents)
set(outputs ${documents}/lockstep.1)
set(commands COMMAND ${CMAKE_COMMAND} -E make_directory ${documents}
             COMMAND lockstep --home ${documents}/home manual > ${documents}/lockstep.1)
foreach(shell bash zsh fish)
  list(APPEND outputs ${documents}/lockstep.${shell})
  list(APPEND commands COMMAND lockstep --home ${documents}/home completion ${shell} > ${documents}/lockstep.${shell})
endforeach()
add_custom_command(OUTPUT ${outputs} ${commands} DEPENDS lockstep
  COMMENT "Writing the manual page and completions" VERBATIM)
add_custom_target(documents ALL DEPENDS ${outputs})

# A program of install(TARGETS) would be built with an empty entry in its DT_RPATH, which is the current folder.
install(PROGRAMS $<TARGET_FILE:lockstep> TYPE BIN)
install(CODE "file(RPATH_REMOVE FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/lockstep\")")
install(DIRECTORY ${CMAKE_BINARY_DIR}/bundle DESTINATION lib/lockstep USE_SOURCE_PERMISSIONS)
# A link, so that the agent finds its libraries and its manifest.
install(CODE "
  set(bin \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  file(MAKE_DIRECTORY \"\${bin}\")
  file(CREATE_LINK ../lib/lockstep/bundle/lockstep-agent \"\${bin}/lockstep-agent\" SYMBOLIC)")
install(DIRECTORY resources/examples DESTINATION ${share}/lockstep FILES_MATCHING PATTERN "*.yaml" PATTERN "*.py")
install(DIRECTORY resources/lessons DESTINATION ${share}/lockstep)
install(FILES ${documents}/lockstep.1 packaging/man/lockstep-agent.1 DESTINATION ${man1})
install(FILES ${documents}/lockstep.bash DESTINATION ${share}/bash-completion/completions RENAME lockstep)
install(FILES ${documents}/lockstep.zsh DESTINATION ${share}/zsh/vendor-completions RENAME _lockstep)
install(FILES ${documents}/lockstep.fish DESTINATION ${share}/fish/vendor_completions.d)

if(TARGET lockstep-studio)
  install(TARGETS lockstep-studio COMPONENT studio)
  install(FILES packaging/man/lockstep-studio.1 DESTINATION ${man1} COMPONENT studio)
  install(FILES packaging/desktop/lockstep-studio.desktop DESTINATION ${share}/applications COMPONENT studio)
  install(FILES packaging/desktop/lockstep-studio.metainfo.xml DESTINATION ${share}/metainfo
          RENAME org.lockstep.Studio.metainfo.xml COMPONENT studio)
  install(FILES resources/icons/lockstep.svg DESTINATION ${share}/icons/hicolor/scalable/apps
          RENAME lockstep-studio.svg COMPONENT studio)
endif()
