# The web page: the files of web/, which server/web puts into the program as they are.

# fx_web_files(FOLDER SOURCE): SOURCE, of the current folder, embeds the files of FOLDER.
function(fx_web_files folder source)
  set(type_html "text/html; charset=utf-8")
  set(type_css "text/css; charset=utf-8")
  set(type_js "text/javascript; charset=utf-8")
  set(type_svg "image/svg+xml")
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${files}") # for the etags
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    get_filename_component(suffix ${file} LAST_EXT)
    string(REPLACE "." "" suffix ${suffix})
    string(MAKE_C_IDENTIFIER ${name} symbol)
    file(SHA256 ${file} hash)
    string(SUBSTRING ${hash} 0 16 hash)
    string(APPEND rows "FXI_WEB_FILE(${symbol}, \"${name}\", \"${type_${suffix}}\", \"${file}\", \"\\\"${hash}\\\"\")\n")
  endforeach()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/web_list.h)
  file(CONFIGURE OUTPUT ${list} CONTENT "${rows}" @ONLY)
  set_property(SOURCE ${source} APPEND PROPERTY OBJECT_DEPENDS "${files};${list}")
  set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS FXI_WEB_LIST="${list}")
endfunction()
